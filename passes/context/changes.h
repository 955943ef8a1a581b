#pragma once

#include "passes/context/names.h"

/// What nearly every pass does to a graph.
namespace tsq::passes {

/// Calls `change` for each element; whether it has changed any.
template <typename Elements, typename Change>
bool change_each(Elements&& elements, const Change& change) {
  bool changed = false;
  for (auto&& each : elements) changed |= change(each);
  return changed;
}

/// Whoever reads the only output of `node` reads `by` from here on, and the node is gone.
inline void replace_node(Node* node, Value* by) {
  node->output()->replaceAllUsesWith(by);
  node->destroy();
}

}  // namespace tsq::passes
