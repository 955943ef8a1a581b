#pragma once

#include <cstdint>
#include <optional>

#include "ir/model.h"

namespace tsq::match {

/// An operator that can be equalized: linear layers and convolutions, their fusions with ReLU, and the
/// functionals.
struct Equalizable {
  int64_t channel_axis{-1};  ///< of the input channels, counted from the last axis of the input
  /// A functional's weight and bias as the graph's values; the bias is null without one. A module has neither
  /// in the graph.
  ir::Value* weight{};
  ir::Value* bias{};
};
/// Empty for other operators. Source: node_supports_equalization in torch/ao/quantization/fx/_equalize.py.
std::optional<Equalizable> equalizable(const ir::Model& model, const ir::Node* node);
/// The same, and of layers that are fused with an addend, their second input.
std::optional<Equalizable> scalable(const ir::Model& model, const ir::Node* node);

/// The tensor of the model that an operand is, looked at through an observer; empty for others.
std::optional<at::Tensor> parameter_after(const ir::Model& model, const ir::Value* operand);

/// nn.ReLU, F.relu, torch.relu or x.relu().
bool is_relu(const ir::Model& model, const ir::Node* node);

}  // namespace tsq::match
