#include "passes/rewrite/written_out.h"

#include <torch/csrc/jit/ir/constants.h>

namespace tsq::passes {

using ir::Model;
using ir::Node;
using ir::Value;

std::optional<c10::IValue> held_constant(const Model& gm, const Value* value) {
  const Node* node = value->node();
  if (node->kind() == c10::prim::GetAttr && node->input(0) == gm.graph->inputs().at(0))
    return gm.attributes.attr(node->s(c10::attr::name));
  return torch::jit::toIValue(value);
}

std::optional<double> constant_number(const Model& gm, const Value* value) {
  const auto constant = held_constant(gm, value);
  if (!constant) return std::nullopt;
  if (constant->isScalar()) return constant->toScalar().toDouble();
  if (!constant->isTensor()) return std::nullopt;
  const at::Tensor& tensor = constant->toTensor();
  const bool is_one = tensor.defined() && tensor.numel() == 1 && tensor.dim() <= 1;
  return is_one ? std::optional(tensor.item().toDouble()) : std::nullopt;
}

bool is_plain_sum(const Model& gm, const Node* node) {
  return node->kind() == c10::aten::add &&
         (node->inputs().size() < 3 || constant_number(gm, node->input(2)) == 1);
}

Value* plus_number(const Model& gm, const Node* node, std::optional<double> number) {
  if (!is_plain_sum(gm, node)) return nullptr;
  for (const std::size_t side : {0, 1}) {
    const auto added = constant_number(gm, node->input(1 - side));
    if (added && (!number || added == number)) return const_cast<Value*>(node->input(side));
  }
  return nullptr;
}

void become(Model& gm, Node* node, c10::Symbol kind, std::initializer_list<Value*> inputs) {
  Node* made = gm.graph->create(kind, inputs, 1);
  made->insertBefore(node);
  made->output()->copyMetadata(node->output());
  made->setSourceRange(node->sourceRange());
  ir::take_scope(made, node);
  node->output()->replaceAllUsesWith(made->output());
}

}  // namespace tsq::passes
