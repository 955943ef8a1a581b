#pragma once

#include <torch/csrc/jit/api/module.h>

#include <memory>
#include <optional>
#include <string>

#include "passes/capture/capturing.h"

namespace tsq::passes {

/// Whether capture looks into a leaf module: one of torch.nn that is made of layers, or computes a layer's
/// weight before it calls it.
[[nodiscard]] bool is_opened(const CaptureSource& source, const torch::jit::Module& module);

/// The code of such a module, with its layers; null where they cannot be told, and the module stays a call.
[[nodiscard]] std::shared_ptr<ir::Graph> opened_graph(const torch::jit::Module& module,
                                                      const std::string& method);

/// The branch of an `if` of torch.nn's attention, opened by freezing, that does without the fused kernel;
/// empty for others.
[[nodiscard]] std::optional<bool> branch_without_fused_attention(const ir::Node* node);

}  // namespace tsq::passes
