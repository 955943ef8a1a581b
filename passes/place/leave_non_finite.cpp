// Where NaN or infinity goes to an operator that looks for them, nothing is rounded on the way, and the
// operators there stay float: int8 has no code for them.
//   masked_fill(y, isnan(y), 0) of y = observer(linear(observer(x)))   →   the same of y = linear(x)

#include <algorithm>
#include <array>
#include <string_view>
#include <unordered_set>
#include <vector>

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

/// Whether an observer met NaN or infinity on the way to such a node.
bool hands_on_non_finite(const Model& model, const Node* node) {
  return ir::is_observer(node) && tensors_not_finite(ir::observer_of(model, node).module.value()) > 0 &&
         Search().reaches(node->output());
}

/// The operators that return what an observer sees, or read it.
std::vector<Node*> neighbours(Node* observer) {
  std::vector<Node*> found = ir::users(observer->output());
  found.push_back(before_observers(observer->output())->node());
  return found;
}

}  // namespace

bool leave_non_finite(Model& model, const PassContext& /*context*/) {
  return change_nodes(
      model, [&](const Node* node) { return hands_on_non_finite(model, node); },
      [&](Node* observer) {
        for (Node* node : neighbours(observer)) {
          if (ir::observed_qconfig(model, node) != nullptr) leave_out(model, node, ir::Reason::NonFinite, {});
        }
        bypass(observer);
      });
}

}  // namespace tsq::passes
