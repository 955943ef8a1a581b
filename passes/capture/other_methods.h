#pragma once

#include <torch/csrc/jit/api/module.h>
#include <tsq/custom_config.h>

#include "passes/capture/capturing.h"

namespace tsq::passes {

/// Whether methods beside forward are captured as forward is, and not as they are: forward, quantized, must
/// take and return what it does in float. Layers of other dtypes compute in float between casts, which are
/// for those that call from outside.
[[nodiscard]] bool opens_methods(const torch::jit::Module& model, const PrepareCustomConfig& custom);

/// Captures what users call beside forward, into Model::methods.
void capture_other_methods(Capturing& state);

}  // namespace tsq::passes
