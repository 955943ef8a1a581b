// An operator that has met NaN or infinity, and whose result goes to an operator that looks for them, stays
// float: int8 has no code for them.
//   masked_fill(y, isnan(y), 0) of y = observer(linear(observer(x)))   →   the same of y = linear(x)

#include <algorithm>
#include <array>
#include <string_view>
#include <unordered_set>

#include "ir/analysis.h"
#include "observers/observer_module.h"
#include "passes/context/nodes.h"
#include "passes/match/value_flow.h"
#include "passes/place/layer_in_float.h"
#include "passes/place/passes.h"

namespace tsq::passes {
namespace {

/// Whether a node finds out whether values are finite. Only NaN is not equal to itself.
bool looks_for_non_finite(const Node* node) {
  constexpr std::array<std::string_view, 10> kNames{"isnan",    "isfinite", "isinf",      "isposinf",
                                                    "isneginf", "isreal",   "nan_to_num", "nanmean",
                                                    "nansum",   "nanmedian"};
  if (!node->kind().is_aten() || node->inputs().empty()) return false;
  if (node->kind() == c10::aten::ne || node->kind() == c10::aten::eq)
    return node->input(0) == node->input(1) && ir::holds_tensor(node->input(0));
  return std::ranges::find(kNames, node->kind().toUnqualString()) != kNames.end();
}

/// Whether what is computed from a value goes to such a node.
class Search {
 public:
  bool reaches(const Value* value) {
    if (!seen_.insert(value).second) return false;
    return std::ranges::any_of(value->uses(), [&](const torch::jit::Use& use) {
      if (looks_for_non_finite(use.user)) return true;
      const auto reaches_it = [&](const Value* each) { return reaches(each); };
      return std::ranges::any_of(flows_to(use), reaches_it) ||
             std::ranges::any_of(use.user->outputs(), reaches_it);
    });
  }

 private:
  std::unordered_set<const Value*> seen_;
};

bool met_non_finite(const Model& model, const Node* observer) {
  return ir::is_observer(observer) && tensors_not_finite(ir::observer_of(model, observer).module.value()) > 0;
}

/// Whether an operator has read or returned NaN or infinity.
bool handles_non_finite(const Model& model, const Node* node) {
  const auto is_observed = [&](const Node* other) { return met_non_finite(model, other); };
  return std::ranges::any_of(ir::operands(node),
                             [&](const Value* operand) { return is_observed(operand->node()); }) ||
         std::ranges::any_of(node->outputs(), [&](const Value* output) {
           return std::ranges::any_of(ir::users(output), is_observed);
         });
}

}  // namespace

bool leave_non_finite(Model& model, const PassContext& /*context*/) {
  const auto hands_on_non_finite = [&](const Node* node) {
    return !ir::is_observer(node) && ir::observed_qconfig(model, node) != nullptr &&
           handles_non_finite(model, node) &&
           std::ranges::any_of(node->outputs(), [](const Value* output) { return Search().reaches(output); });
  };
  return change_nodes(model, hands_on_non_finite,
                      [&](Node* node) { leave_out(model, node, ir::Reason::NonFinite, {}); });
}

}  // namespace tsq::passes
