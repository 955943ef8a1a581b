#include "passes/place/gates.h"

#include <algorithm>

#include "ir/analysis.h"
#include "operators/images/whole_average.h"
#include "operators/traits.h"
#include "passes/context/nodes.h"
#include "passes/place/rounding.h"

namespace tsq::passes {
namespace {

bool is_layer(const Model& model, const Node* node) {
  return !ir::is_opaque(model, node) && node->inputs().size() == 1 && weighted_at(model, node) != nullptr;
}

bool is_step(const Model& model, const Node* node) {
  if (node->outputs().size() != 1 || ir::operands(node).empty() || ir::stays_float(model, node)) return false;
  return operators::only_reshapes(operators::traits_of(model, node)) || is_layer(model, node) ||
         is_activation(model, node);
}

std::optional<Gate> gate_from(const Model& model, Node* product, Value* gate, Value* gated) {
  Gate found{.product = product, .gate = gate, .gated = gated};
  Value* value = exact(model, gate);
  while (!operators::is_whole_average(model, value->node())) {
    if (!is_step(model, value->node())) return std::nullopt;
    found.steps.push_back(value->node());
    value = exact(model, ir::operands(value->node()).front());
  }
  std::ranges::reverse(found.steps);
  found.average = value->node();
  const bool has_layer =
      std::ranges::any_of(found.steps, [&](const Node* step) { return is_layer(model, step); });
  return has_layer ? std::optional(found) : std::nullopt;
}

}  // namespace

bool is_activation(const Model& model, const Node* node) {
  return operators::is_elementwise(operators::traits_of(model, node)) ||
         operators::is_one_of(model, node, {"prelu"});
}

std::optional<Gate> gate_of(const Model& model, Node* product) {
  if (!operators::is_one_of(model, product, {"mul"}) || ir::stays_float(model, product)) return std::nullopt;
  auto gate = gate_from(model, product, product->input(0), product->input(1));
  return gate ? gate : gate_from(model, product, product->input(1), product->input(0));
}

}  // namespace tsq::passes
