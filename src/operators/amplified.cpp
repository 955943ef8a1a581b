#include "operators/amplified.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <unordered_set>

#include "ir/analysis.h"
#include "ir/constants.h"
#include "operators/traits.h"

namespace tsq::operators {
namespace {

using ir::Model;
using ir::Node;
using ir::Value;

bool is_number_or_constant(const Model& model, const Value* value) {
  return !ir::holds_tensor(value) || ir::held_tensor(model, value).defined();
}

/// Below one, or known only when the model runs.
bool is_small_exponent(const Model& model, const Value* exponent) {
  if (const at::Tensor known = ir::held_tensor(model, exponent); known.defined())
    return known.numel() != 0 && known.to(at::kDouble).lt(1).any().item<bool>();
  const auto number = ir::number_constant(exponent);
  return !number || *number < 1;
}

bool amplifies(const Model& model, const Node* node, const Value* value) {
  const bool is_power =
      node->kind() == c10::aten::pow || node->kind() == c10::Symbol::fromQualString("aten::float_power");
  if (is_power && node->input(0) == value) return is_small_exponent(model, node->input(1));
  const auto* const row = traits_of(node);
  return row != nullptr && row->steep_in && *row->steep_in < node->inputs().size() &&
         node->input(*row->steep_in) == value;
}

/// Whether a node returns what it reads, moved, limited, shifted or scaled.
bool keeps_values(const Model& model, const Node* node, const Value* value) {
  if (node->kind() == c10::prim::ListConstruct || node->kind() == c10::prim::ListUnpack ||
      node->kind() == c10::prim::TupleConstruct || node->kind() == c10::prim::TupleUnpack)
    return true;
  const auto* const row = traits_of(model, node);
  if (row == nullptr) return false;
  const bool is_linear =
      is_one_of(model, node, {"add", "sub", "rsub", "mul", "div", "neg", "abs", "maximum", "minimum"});
  if (!is_linear) {
    const bool keeps = row->clamp || row->values != Values::Computed || row->has(IsIdentity);
    return keeps && node->input(node->kind() == c10::prim::CallFunction ? 1 : 0) == value;
  }
  const bool is_square = std::ranges::count(node->inputs(), value) > 1;
  return !is_square && std::ranges::all_of(node->inputs(), [&](const Value* input) {
    return input == value || is_number_or_constant(model, input);
  });
}

class Search {
 public:
  explicit Search(const Model& model) : model_(model) {}

  bool is_amplified(const Value* value) {
    if (!seen_.insert(value).second) return false;
    return std::ranges::any_of(value->uses(), [&](const torch::jit::Use& use) {
      if (use.user->kind() == c10::prim::Return) return is_amplified_outside(use);
      return amplifies(model_, use.user, value) ||
             (keeps_values(model_, use.user, value) &&
              std::ranges::any_of(use.user->outputs(),
                                  [&](const Value* each) { return is_amplified(each); }));
    });
  }

 private:
  bool is_amplified_outside(const torch::jit::Use& use) {
    const Node* owner = use.user->owningBlock()->owningNode();
    return owner != nullptr && owner->kind() == c10::prim::If && is_amplified(owner->output(use.offset));
  }

  const Model& model_;
  std::unordered_set<const Value*> seen_;
};

}  // namespace

bool is_amplified(const Model& model, const Value* value) { return Search(model).is_amplified(value); }

}  // namespace tsq::operators
