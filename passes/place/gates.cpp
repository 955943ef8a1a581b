#include "passes/placement/gates.h"

#include <algorithm>

#include "ir/analysis.h"
#include "ir/quantize_operators.h"
#include "operators/traits.h"
#include "operators/whole_average.h"

namespace tsq::passes {
namespace {

using ir::Model;
using ir::Node;
using ir::Value;

bool is_layer(const Model& gm, const Node* node) {
  return ir::is_module_call(node) && !ir::is_standalone(gm, node) && node->inputs().size() == 1 &&
         ir::weighted_of(ir::call_of(gm, node)) != nullptr;
}

bool is_step(const Model& gm, const Node* node) {
  if (node->outputs().size() != 1 || ir::operands(node).empty() || ir::stays_float(node)) return false;
  return operators::only_reshapes(operators::traits_of(gm, node)) || is_layer(gm, node) ||
         is_activation(gm, node);
}

std::optional<Gate> gate_of(const Model& gm, Node* product, Value* gate, Value* gated) {
  if (exact(gate) == gate || exact(gated) == gated) return std::nullopt;
  Gate found{.product = product, .gate = gate, .gated = gated};
  Value* value = exact(gate);
  while (!operators::is_whole_average(gm, value->node())) {
    if (!is_step(gm, value->node())) return std::nullopt;
    found.steps.push_back(value->node());
    value = exact(ir::operands(value->node()).front());
  }
  std::ranges::reverse(found.steps);
  found.average = value->node();
  const bool has_layer =
      std::ranges::any_of(found.steps, [&](const Node* step) { return is_layer(gm, step); });
  return has_layer ? std::optional(found) : std::nullopt;
}

}  // namespace

Value* exact(Value* value) {
  const Node* dequantize = value->node();
  if (dequantize->kind() != ir::kDequantize) return value;
  Node* quantize = dequantize->input(0)->node();
  return quantize->kind() == ir::kQuantize ? quantize->input(0) : value;
}

bool is_activation(const Model& gm, const Node* node) {
  return operators::is_elementwise(operators::traits_of(gm, node)) ||
         operators::is_one_of(gm, node, {"prelu"});
}

std::optional<Gate> gate_of(const Model& gm, Node* product) {
  if (!operators::is_one_of(gm, product, {"mul"}) || ir::stays_float(product)) return std::nullopt;
  auto gate = gate_of(gm, product, product->input(0), product->input(1));
  return gate ? gate : gate_of(gm, product, product->input(1), product->input(0));
}

}  // namespace tsq::passes
