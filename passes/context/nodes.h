#pragma once

#include "ir/live_nodes.h"
#include "ir/value_numbers.h"
#include "passes/context/pass_context.h"

/// What passes of several rooms do with nodes.
namespace tsq::passes {

using ir::before_observers;

/// Calls `change` for each element. Whether it said of any that it has changed it.
template <typename Elements, typename Change>
bool change_each(Elements&& elements, const Change& change) {
  bool has_changed = false;
  for (auto&& each : elements) has_changed |= change(each);
  return has_changed;
}

/// The same with every node that is still there when its turn comes, in the order of the graph.
template <typename Change>
bool change_nodes(Model& model, const Change& change) {
  return change_each(ir::LiveNodes(*model.graph), change);
}

/// Calls `change` with the nodes that `is_wanted` chooses, each once those before it have been changed.
/// Whether there were any.
template <typename IsWanted, typename Change>
bool change_nodes(Model& model, const IsWanted& is_wanted, const Change& change) {
  return change_nodes(model, [&](Node* node) {
    if (!is_wanted(node)) return false;
    change(node);
    return true;
  });
}

/// Whoever reads the only output of `node` reads `by`, the same value, from here on, and the node is gone.
inline void replace_node(Node* node, Value* by) {
  ir::take_number(by, node->output());
  node->output()->replaceAllUsesWith(by);
  node->destroy();
}

/// Whoever reads what a node returns reads its first input; the node is gone.
inline void bypass(Node* node) {
  node->output()->replaceAllUsesWith(node->input(0));
  node->destroy();
}

/// The weighted operator that a node calls; null where there is none.
inline ir::Weighted* weighted_at(Model& model, const Node* node) {
  return ir::is_module_call(node) ? ir::weighted_of(ir::call_of(model, node)) : nullptr;
}
inline const ir::Weighted* weighted_at(const Model& model, const Node* node) {
  return ir::is_module_call(node) ? ir::weighted_of(ir::call_of(model, node)) : nullptr;
}

}  // namespace tsq::passes
