// Nothing is rounded between a layer whose kernel gives float and an activation that is as fast in float.
//   conv → observer → prelu → observer   becomes   conv → prelu → observer

#include "modules/float_output.h"
#include "passes/passes.h"

namespace tsq::passes {

using ir::GraphModule;
using ir::Node;

void drop_output_observers(GraphModule& gm) {
  std::vector<Node*> idle;
  for (Node* layer : ir::nodes_in_order(*gm.graph)) {
    if (ir::observed_qconfig(gm, layer) == nullptr) continue;
    Node* observer = ir::only_reader(layer);
    if (observer == nullptr || !ir::is_observer(observer)) continue;
    const Node* activation = ir::only_reader(observer);
    if (activation == nullptr || ir::observed_qconfig(gm, activation) != nullptr ||
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
