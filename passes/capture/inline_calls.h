#pragma once

#include <torch/csrc/jit/api/module.h>

#include <memory>

#include "passes/capture/capturing.h"

namespace tsq::passes {

/// Model::graph becomes the method with all its calls inlined, except those of leaf modules; chains of
/// attributes are resolved. Throws Error(BadModel) for a model in a layout of oneDNN's own.
std::shared_ptr<ir::Graph> inline_calls(Capturing& state, const torch::jit::Method& method);

}  // namespace tsq::passes
