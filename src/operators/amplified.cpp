#include "operators/amplified.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <utility>

#include "ir/analysis.h"
#include "ir/constants.h"
#include "operators/traits.h"

namespace tsq::operators {
namespace {

using ir::Model;
using ir::Node;
using ir::Value;

/// A tensor, perhaps moved or in another dtype, or none.
bool is_number_or_constant(const Model& model, const Value* value) {
  if (!ir::holds_tensor(value) || value->mustBeNone() || ir::held_tensor(model, value).defined()) return true;
  const auto* const row = traits_of(value->node());
  const bool keeps =
      row != nullptr && (row->values == Values::Rearranged || row->values == Values::Converted);
  return keeps && is_number_or_constant(model, value->node()->input(0));
}

bool is_power(const Node* node) {
  return node->kind() == c10::aten::pow || node->kind() == c10::Symbol::fromQualString("aten::float_power");
}

/// The least where there are several. Zero for one that is known only when the model runs.
double known_exponent(const Model& model, const Value* exponent) {
  if (const at::Tensor known = ir::held_tensor(model, exponent); known.defined())
    return known.numel() == 0 ? 1 : known.min().to(at::kDouble).item<double>();
  return ir::number_constant(exponent).value_or(0);
}

/// The exponent of a node that raises a value to a power; none for other nodes.
std::optional<double> exponent_of(const Model& model, const Node* node, const Value* value) {
  if (is_power(node))
    return node->input(0) == value ? std::optional(known_exponent(model, node->input(1))) : std::nullopt;
  if (is_one_of(model, node, {"sqrt"})) return 0.5;
  const bool is_product_with_itself = is_one_of(model, node, {"mul"}) && node->input(0) == node->input(1);
  return is_product_with_itself || is_one_of(model, node, {"square"}) ? std::optional(2.0) : std::nullopt;
}

/// Whether a value is an absolute value or a square, and so never negative.
bool is_magnitude(const Model& model, const Value* value) {
  const Node* node = value->node();
  if (is_one_of(model, node, {"abs"})) return true;
  const auto exponent = node->inputs().empty() ? std::nullopt : exponent_of(model, node, node->input(0));
  return exponent && *exponent > 0 && std::fmod(*exponent, 2) == 0;
}

/// Whether a value is 1 + |x| or the like, or a power of that.
bool is_at_least_one(const Model& model, const Value* value) {
  const Node* node = value->node();
  if (node->inputs().empty()) return false;
  if (const auto exponent = exponent_of(model, node, node->input(0)))
    return *exponent > 0 && is_at_least_one(model, node->input(0));
  if (!is_one_of(model, node, {"add"})) return false;
  const auto is_one_or_more = [&](const Value* addend) {
    const at::Tensor known = ir::held_tensor(model, addend);
    if (known.defined()) return known.ge(1).all().item<bool>();
    return ir::number_constant(addend).value_or(0) >= 1;
  };
  return (is_magnitude(model, node->input(0)) && is_one_or_more(node->input(1))) ||
         (is_magnitude(model, node->input(1)) && is_one_or_more(node->input(0)));
}

/// Whether a node is steep in a value. What divides by 1 + |x| is bounded and has no slope above one, as
/// tanh.
bool is_steep(const Model& model, const Node* node, const Value* value) {
  const auto* const row = traits_of(node);
  if (row == nullptr || !row->steep_in || *row->steep_in >= node->inputs().size() ||
      node->input(*row->steep_in) != value)
    return false;
  return !is_one_of(model, node, {"div", "reciprocal", "rsqrt"}) || !is_at_least_one(model, value);
}

/// Whether a sum is small only where every addend is.
bool adds_magnitudes(const Model& model, const Node* node) {
  return is_one_of(model, node, {"add"}) && std::ranges::all_of(node->inputs(), [&](const Value* input) {
           return !ir::holds_tensor(input) || is_magnitude(model, input);
         });
}

/// Whether a node computes with constants alone, but for a value.
bool takes_constants(const Model& model, const Node* node, const Value* value) {
  return std::ranges::all_of(node->inputs(), [&](const Value* input) {
    return input == value || is_number_or_constant(model, input);
  });
}

/// Operators that limit a value or choose it: among them overloads that have no row, as clamps between
/// tensors.
bool limits_or_chooses(const Model& model, const Node* node, const Value* value) {
  switch (node->kind()) {
    case c10::aten::where:
      return node->input(0) != value;
    case c10::aten::clamp:
    case c10::aten::clamp_min:
    case c10::aten::clamp_max:
    case c10::aten::max:
    case c10::aten::min:
      return node->input(0) == value && takes_constants(model, node, value);
    default:
      return false;
  }
}

/// Whether a node returns what it reads, moved, limited, shifted or scaled, or what is as small where that
/// is: its absolute value, a power of it.
bool keeps_small_values(const Model& model, const Node* node, const Value* value) {
  if (node->kind() == c10::prim::ListConstruct || node->kind() == c10::prim::ListUnpack ||
      node->kind() == c10::prim::TupleConstruct || node->kind() == c10::prim::TupleUnpack ||
      limits_or_chooses(model, node, value) || adds_magnitudes(model, node))
    return true;
  const auto* const row = traits_of(model, node);
  if (row == nullptr) return false;
  if (is_one_of(model, node, {"add", "sub", "rsub", "mul", "div", "maximum", "minimum"}))
    return takes_constants(model, node, value);
  const bool keeps =
      row->clamp || row->values != Values::Computed || row->has(IsIdentity) || row->has(KeepsSmall);
  return keeps && node->input(node->kind() == c10::prim::CallFunction ? 1 : 0) == value;
}

class Search {
 public:
  explicit Search(const Model& model) : model_(model) {}

  /// Of a value that is near zero as a power of the first one is: √(x²) is |x|, and not steep.
  bool is_amplified(const Value* value, double power) {
    if (!seen_.emplace(value, power).second) return false;
    return std::ranges::any_of(value->uses(), [&](const torch::jit::Use& use) {
      if (use.user->kind() == c10::prim::Return) return is_amplified_outside(use, power);
      if (const auto exponent = exponent_of(model_, use.user, value))
        return power * *exponent < 1 || is_any_output_amplified(use.user, power * *exponent);
      return is_steep(model_, use.user, value) ||
             (keeps_small_values(model_, use.user, value) && is_any_output_amplified(use.user, power));
    });
  }

 private:
  bool is_any_output_amplified(const Node* node, double power) {
    return std::ranges::any_of(node->outputs(), [&](const Value* each) { return is_amplified(each, power); });
  }

  bool is_amplified_outside(const torch::jit::Use& use, double power) {
    const Node* owner = use.user->owningBlock()->owningNode();
    return owner != nullptr && owner->kind() == c10::prim::If &&
           is_amplified(owner->output(use.offset), power);
  }

  const Model& model_;
  std::set<std::pair<const Value*, double>> seen_;
};

}  // namespace

bool is_amplified(const Model& model, const Value* value) { return Search(model).is_amplified(value, 1); }

}  // namespace tsq::operators
