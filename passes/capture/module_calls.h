#pragma once

#include <torch/csrc/jit/api/module.h>

#include "passes/capture/capturing.h"

namespace tsq::passes {

/// The module as the graph holds it: in evaluation, a copy that shares the tensors of the user's module; to
/// train, that module itself.
[[nodiscard]] torch::jit::Module in_its_mode(const CaptureSource& source, const torch::jit::Module& module);

/// CallMethod of a leaf module → the module's call; of the model itself, in another method → a forward call.
/// Throws Error(BadConfig) for a standalone module with an output other than the first.
void make_module_calls(Capturing& state);

}  // namespace tsq::passes
