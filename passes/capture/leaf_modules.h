#pragma once

#include <torch/csrc/jit/api/module.h>
#include <tsq/custom_config.h>

#include <string>

#include "passes/capture/capturing.h"

namespace tsq::passes {

/// Whether a method is a module's forward. Overloaded forwards (LSTM, GRU) are compiled as forward__0,
/// forward__1; tracing makes a forward1, forward2 … of a module that is called again.
[[nodiscard]] bool is_forward(const std::string& method);

/// What FX's tracer does not look into because the user says so.
[[nodiscard]] bool is_leaf_of_user(const CaptureSource& source, const torch::jit::Module& module);
/// C-23: what FX's tracer does not look into.
[[nodiscard]] bool is_leaf(const CaptureSource& source, const torch::jit::Module& module);

/// C-22: FloatFunctional passes its results to an Identity, which eager mode replaces by an observer. FX does
/// not see it.
[[nodiscard]] bool is_stub_of_eager_mode(const torch::jit::Module& module, const ir::Scope& caller);

}  // namespace tsq::passes
