// Quantizing cuts off what its range does not hold: a clamp that cuts off no more than that is not needed.
//   quantize(clamp(conv))   →   quantize(conv), also where the clamped values are moved before
//   otherwise               →   quantize(clamp(dequantize(quantize(conv))))
// The second form lets the operator become a kernel of its own; clamping codes and clamping values are the
// same.

#include <torch/csrc/jit/ir/constants.h>

#include <algorithm>

#include "backends/kernels/lowering_table.h"
#include "ir/analysis.h"
#include "ir/constants.h"
#include "ir/edit.h"
#include "ir/live_nodes.h"
#include "ir/quantize_operators.h"
#include "operators/clamp_bounds.h"
#include "operators/traits.h"
#include "passes/lower/passes.h"

namespace tsq::passes {
namespace {

using ir::kDequantize;
using ir::kQuantize;

/// What a quantize node can represent.
struct Representable {
  double lowest{};
  double highest{};
  double scale{};
};

std::optional<double> number(const Model& model, const Value* value) {
  if (const auto constant = ir::number_constant(value)) return constant;
  const auto held = ir::held_value(model, value);
  return held && held->isDouble() ? std::optional(held->toDouble()) : std::nullopt;
}

std::optional<Representable> representable(const Model& model, const Node* quantize) {
  const auto scale = number(model, quantize->input(1));
  const auto zero_point = number(model, quantize->input(2));
  const auto dtype = ir::dtype_constant(quantize->input(3));
  const bool is_signed = dtype == c10::ScalarType::QInt8;
  if (!scale || !zero_point || (!is_signed && dtype != c10::ScalarType::QUInt8)) return std::nullopt;
  const double first = is_signed ? -128 : 0;
  return Representable{.lowest = (first - *zero_point) * *scale,
                       .highest = (first + 255 - *zero_point) * *scale,
                       .scale = *scale};
}

/// Whether nothing outside of the bounds, rounding apart, can be represented.
bool saturates_within(const Representable& range, const operators::ClampBounds& bounds) {
  const double rounding = range.scale / 2;
  return range.lowest >= bounds.lowest - rounding && range.highest <= bounds.highest + rounding;
}

/// Kernels of a sum or product with a number work their range out themselves, and do not saturate at that of
/// the quantize node.
bool has_a_range_of_its_own(const Model& model, const Node* node) {
  if (ir::is_module_call(node) || node->inputs().size() < 2 || ir::holds_tensor(node->input(1))) return false;
  return std::ranges::any_of(ir::targets(model, node), [](const Symbol& target) {
    return kernels::binary_kernel(target.name) != nullptr;
  });
}

/// The operator after a clamp whose values a quantize node rounds: the quantize node itself, or the first of
/// the operators that move them to it, and to nobody else.
Node* first_after_clamp(Node* quantize) {
  Node* after = quantize;
  while (true) {
    Node* before = after->input(0)->node();
    if (!operators::moves_values(operators::traits_of(before)) || ir::only_reader(before) == nullptr)
      return after;
    after = before;
  }
}

void quantize_before(Model& model, Node* clamp, const Node* quantize) {
  const ir::Rewriter in_front(model, clamp);
  const auto copied = [&](std::size_t argument) {
    return in_front.constant(*torch::jit::toIValue(quantize->input(argument)));
  };
  Value* input = ir::operands(clamp).front();
  Value* quantized = in_front.op("aten::quantize_per_tensor", {input, copied(1), copied(2), copied(3)});
  ir::take_scope(quantized->node(), quantize);
  ir::replace_operand(clamp, input, in_front.op("aten::dequantize", {quantized}));
}

/// Clamps that what is quantized has been through, the last one first. Whether something became of one.
bool saturate(Model& model, Node* quantize) {
  bool has_changed = false;
  while (true) {
    Node* after = first_after_clamp(quantize);
    Node* clamp = after->input(0)->node();
    const auto bounds = operators::clamp_bounds(model, clamp);
    if (!bounds || clamp->output()->uses().size() != 1) return has_changed;
    Value* input = ir::operands(clamp).front();
    const auto range = representable(model, quantize);
    if (input->node()->kind() == kDequantize || !range || has_a_range_of_its_own(model, input->node()))
      return has_changed;
    if (!saturates_within(*range, *bounds)) {
      if (after != quantize || !torch::jit::toIValue(quantize->input(1))) return has_changed;
      quantize_before(model, clamp, quantize);
      return true;
    }
    after->replaceInput(0, input);
    operators::set_cut_off(quantize, *bounds);
    clamp->destroy();
    has_changed = true;
  }
}

}  // namespace

bool saturate_clamps(Model& model, const PassContext& /*context*/) {
  bool has_changed = false;
  for (Node* node : ir::LiveNodes(*model.graph)) {
    if (node->kind() == kQuantize && saturate(model, node)) has_changed = true;
  }
  return has_changed;
}

}  // namespace tsq::passes
