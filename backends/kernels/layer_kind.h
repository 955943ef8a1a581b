#pragma once

#include <optional>
#include <string_view>

#include "backends/kernels/lowering_table.h"
#include "ir/model.h"

namespace tsq::kernels {

/// A layer as the tables of kernels name it.
struct LayerKind {
  std::string_view op;  ///< PyTorch's name of the unfused module
  PostOp post_op{PostOp::None};
};

/// Of a module, fused or not, and of a function that computes what a module does; empty for fused modules
/// whose post-op has no kernel, and for other operators.
std::optional<LayerKind> layer_kind(const ir::Model& model, const ir::Node* layer);

}  // namespace tsq::kernels
