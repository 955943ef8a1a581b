#pragma once

#include "ir/analysis.h"
#include "passes/context/pass_context.h"

/// What passes of several rooms do with nodes.
namespace tsq::passes {

/// Calls `change` with every node, in the order of the graph. Whether it said of any that it has changed it.
template <typename Change>
bool change_nodes(Model& model, const Change& change) {
  bool has_changed = false;
  for (Node* node : ir::nodes_in_order(*model.graph)) has_changed = change(node) || has_changed;
  return has_changed;
}

/// Calls `change` with the nodes that `is_wanted` chooses, each once those before it have been changed.
/// Whether there were any.
template <typename IsWanted, typename Change>
bool change_nodes(Model& model, const IsWanted& is_wanted, const Change& change) {
  bool has_changed = false;
  for (Node* node : ir::nodes_in_order(*model.graph)) {
    if (!is_wanted(node)) continue;
    change(node);
    has_changed = true;
  }
  return has_changed;
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

/// What the observers that a value comes out of look at; the value itself after other nodes.
template <typename AnyValue>
AnyValue* before_observers(AnyValue* value) {
  while (ir::is_observer(value->node())) value = value->node()->input(0);
  return value;
}

}  // namespace tsq::passes
