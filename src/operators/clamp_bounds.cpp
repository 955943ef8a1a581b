#include "operators/clamp_bounds.h"

#include <algorithm>
#include <limits>

#include "operators/arguments.h"
#include "operators/traits.h"

namespace tsq::operators {
namespace {

const c10::Symbol kLowest = c10::Symbol::attr("tsq_lowest");
const c10::Symbol kHighest = c10::Symbol::attr("tsq_highest");

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Empty for a bound that is known only when the model runs.
std::optional<double> value_of(const ir::Model& model, const ir::Node* node, const Bound& bound,
                               double unlimited) {
  if (bound.number) return bound.number;
  if (bound.argument.empty()) return unlimited;
  const std::string name(bound.argument);
  if (!ir::is_module_call(node) && argument_named(node, name) == nullptr) return unlimited;
  const auto value = argument_constant(model, node, name, c10::aten::hardtanh, name);
  if (!value) return std::nullopt;
  if (value->isNone()) return unlimited;
  const bool is_number = value->isDouble() || value->isInt();
  return is_number ? std::optional(value->toScalar().toDouble()) : std::nullopt;
}

}  // namespace

std::optional<ClampBounds> clamp_bounds(const ir::Model& model, const ir::Node* node) {
  const auto* const row = traits_of(model, node);
  if (row == nullptr || !row->clamp || node->outputs().size() != 1) return std::nullopt;
  const auto lowest = value_of(model, node, row->clamp->lowest, -kInfinity);
  const auto highest = value_of(model, node, row->clamp->highest, kInfinity);
  if (!lowest || !highest) return std::nullopt;
  return ClampBounds{.lowest = *lowest, .highest = *highest};
}

void set_cut_off(ir::Node* quantize, const ClampBounds& bounds) {
  const ClampBounds before = cut_off(quantize).value_or(bounds);
  quantize->f_(kLowest, std::max(before.lowest, bounds.lowest));
  quantize->f_(kHighest, std::min(before.highest, bounds.highest));
}

std::optional<ClampBounds> cut_off(const ir::Node* quantize) {
  if (!quantize->hasAttribute(kLowest)) return std::nullopt;
  return ClampBounds{.lowest = quantize->f(kLowest), .highest = quantize->f(kHighest)};
}

}  // namespace tsq::operators
