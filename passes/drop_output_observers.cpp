// Nothing is rounded between a layer whose kernel gives float and an activation that is as fast in float.
//   conv → observer → prelu → observer   becomes   conv → prelu → observer

#include "modules/float_output.h"
#include "passes/passes.h"

namespace tsq::passes {
namespace {

using ir::GraphModule;
using ir::Node;

bool is_observed(const GraphModule& gm, const Node* node) {
  const ir::NodeState* state = ir::state_of(gm, node);
  return state != nullptr && state->observed && state->qconfig;
}

/// The only reader of the only output.
Node* only_reader(const Node* node) {
  const auto& uses = node->output()->uses();
  return uses.size() == 1 ? uses.front().user : nullptr;
}

}  // namespace

void drop_output_observers(GraphModule& gm) {
  std::vector<Node*> idle;
  for (Node* layer : ir::nodes_in_order(*gm.graph)) {
    if (!is_observed(gm, layer) || layer->outputs().size() != 1) continue;
    Node* observer = only_reader(layer);
    if (observer == nullptr || !ir::is_observer(observer)) continue;
    const Node* activation = only_reader(observer);
    if (activation == nullptr || is_observed(gm, activation) ||
        !modules::stays_float_behind(gm, layer, activation))
      continue;
    idle.push_back(observer);
  }
  for (Node* observer : idle) {
    observer->output()->replaceAllUsesWith(observer->input(0));
    observer->destroy();
  }
}

}  // namespace tsq::passes
