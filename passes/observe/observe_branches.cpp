// Where the branches of an `if` meet they have one range (join_branches), which does not tell from which of
// them its values came.
//   if c: a = obs1(conv(x)) else: a = obs1(linear(x))
//   →   the same, with a further observer of obs1(conv(x)) in the one and of obs1(linear(x)) in the other

#include <map>
#include <set>

#include "ir/analysis.h"
#include "ir/edit.h"
#include "passes/context/branch_observers.h"
#include "passes/context/nodes.h"
#include "passes/observe/layer_observers.h"
#include "passes/observe/passes.h"

namespace tsq::passes {
namespace {

/// The observers of what branches make and return that other observers share their range with, each once.
/// What a branch only hands on is the value that it was before the `if`.
std::set<Node*> shared_ends(const Model& model) {
  std::map<std::size_t, std::size_t> places;
  std::set<Node*> ends;
  for (const Node* node : ir::nodes_in_order(*model.graph)) {
    if (ir::is_observer(node)) ++places[ir::observer_index(node)];
    if (node->kind() != c10::prim::If) continue;
    for (const torch::jit::Block* block : node->blocks()) {
      for (std::size_t i = 0; i < node->outputs().size(); ++i) {
        Node* end = end_of_branch(block, i);
        if (end != nullptr && end->input(0)->node()->owningBlock() == block) ends.insert(end);
      }
    }
  }
  std::erase_if(ends, [&](const Node* end) { return places[ir::observer_index(end)] < 2; });
  return ends;
}

}  // namespace

bool observe_branches(Model& model, const PassContext& /*context*/) {
  const std::set<Node*> ends = shared_ends(model);
  return change_nodes(model, [&](Node* node) {
    if (!ends.contains(node)) return false;
    const std::size_t index = new_observer(model, {.observer = observer_classes::kBranch},
                                           ir::layer_of(model, node), "branch_observer");
    ir::insert_observer(model, node->output(), index);
    return true;
  });
}

}  // namespace tsq::passes
