// Where the branches of an `if` meet they have one range (join_branches), which does not tell from which of
// them its values came.
//   if c: a = obs1(conv(x)) else: a = obs1(linear(x))
//   →   the same, with a further observer of obs1(conv(x)) in the one and of obs1(linear(x)) in the other

#include "config/names/observer_classes.h"
#include "ir/analysis.h"
#include "passes/context/branch_observers.h"
#include "passes/observe/layer_observers.h"
#include "passes/observe/passes.h"

namespace tsq::passes {
namespace {

/// The observers of one range at the ends of a node's branches; empty where there are not several.
std::vector<Node*> joined_observers(const Node* branches) {
  std::vector<Node*> found;
  for (std::size_t i = 0; i < branches->outputs().size(); ++i) {
    const std::vector<Node*> ends = ends_of_branches(branches, i);
    if (ends.size() > 1) found.insert(found.end(), ends.begin(), ends.end());
  }
  return found;
}

}  // namespace

bool observe_branches(Model& model, const PassContext& /*context*/) {
  bool has_changed = false;
  for (const Node* node : ir::nodes_in_order(*model.graph)) {
    if (node->kind() != c10::prim::If) continue;
    for (Node* end : joined_observers(node)) {
      const std::size_t index =
          new_observer(model, {.observer = observer_classes::kChannelStatistics, .ch_axis = -1},
                       ir::layer_of(model, end), kBranchObserver);
      ir::insert_observer(model, end->output(), index);
      has_changed = true;
    }
  }
  return has_changed;
}

}  // namespace tsq::passes
