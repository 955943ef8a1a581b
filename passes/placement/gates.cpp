#include "passes/placement/gates.h"

#include <algorithm>
#include <array>

#include "ir/quantize_operators.h"
#include "operators/clamp_bounds.h"
#include "operators/whole_average.h"

namespace tsq::passes {
namespace {

using ir::GraphModule;
using ir::Node;
using ir::Value;

constexpr std::array kProducts{c10::aten::mul, c10::aten::mul_};
constexpr std::array kMoves{c10::aten::view,      c10::aten::reshape, c10::aten::flatten,
                            c10::aten::unsqueeze, c10::aten::squeeze, c10::aten::contiguous};
constexpr std::array<std::string_view, 13> kActivations{"torch.nn.Sigmoid",
                                                        "torch.sigmoid",
                                                        "sigmoid",
                                                        "torch.nn.Hardsigmoid",
                                                        "torch.nn.functional.hardsigmoid",
                                                        "torch.nn.SiLU",
                                                        "torch.nn.functional.silu",
                                                        "torch.nn.Hardswish",
                                                        "torch.nn.functional.hardswish",
                                                        "torch.nn.Tanh",
                                                        "torch.tanh",
                                                        "tanh",
                                                        "torch.nn.PReLU"};

bool is_layer(const GraphModule& gm, const Node* node) {
  return ir::is_module_call(node) && !ir::is_standalone(gm, node) && node->inputs().size() == 1 &&
         ir::weighted_of(ir::call_of(gm, node)) != nullptr;
}

bool is_step(const GraphModule& gm, const Node* node) {
  if (node->outputs().size() != 1 || ir::operands(node).empty() || ir::stays_float(node)) return false;
  const bool moves = std::ranges::find(kMoves, node->kind()) != kMoves.end();
  return moves || is_layer(gm, node) || is_activation(gm, node);
}

std::optional<Gate> gate_of(const GraphModule& gm, Node* product, Value* gate, Value* gated) {
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

bool is_activation(const GraphModule& gm, const Node* node) {
  return operators::clamp_bounds(gm, node) ||
         std::ranges::any_of(ir::targets(gm, node), [](const Symbol& target) {
           return std::ranges::find(kActivations, target.name) != kActivations.end();
         });
}

std::optional<Gate> gate_of(const GraphModule& gm, Node* product) {
  if (std::ranges::find(kProducts, product->kind()) == kProducts.end() || ir::stays_float(product))
    return std::nullopt;
  auto gate = gate_of(gm, product, product->input(0), product->input(1));
  return gate ? gate : gate_of(gm, product, product->input(1), product->input(0));
}

}  // namespace tsq::passes
