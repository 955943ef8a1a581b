#include "passes/rewrite/held_constants.h"

#include <torch/csrc/jit/ir/constants.h>

namespace tsq::passes {

using ir::Model;
using ir::Node;
using ir::Value;

std::optional<c10::IValue> held_constant(const Model& model, const Value* value) {
  const Node* node = value->node();
  if (node->kind() == c10::prim::GetAttr && node->input(0) == model.graph->inputs().at(0))
    return model.attributes.attr(node->s(c10::attr::name));
  return torch::jit::toIValue(value);
}

std::optional<double> constant_number(const Model& model, const Value* value) {
  const auto constant = held_constant(model, value);
  if (!constant) return std::nullopt;
  if (constant->isScalar()) return constant->toScalar().toDouble();
  if (!constant->isTensor()) return std::nullopt;
  const at::Tensor& tensor = constant->toTensor();
  const bool is_one = tensor.defined() && tensor.numel() == 1 && tensor.dim() <= 1;
  return is_one ? std::optional(tensor.item().toDouble()) : std::nullopt;
}

int64_t vector_size(const Model& model, const Value* value) {
  const auto constant = held_constant(model, value);
  if (!constant || !constant->isTensor()) return 0;
  const at::Tensor& tensor = constant->toTensor();
  const bool is_vector = tensor.defined() && tensor.dim() == 1 && tensor.is_floating_point();
  return is_vector ? tensor.size(0) : 0;
}

}  // namespace tsq::passes
