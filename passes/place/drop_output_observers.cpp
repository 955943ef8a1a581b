// Nothing is rounded between a layer whose kernel returns float and an activation that is as fast in float.
//   conv → observer → prelu → observer   becomes   conv → prelu → observer

#include "backends/kernels/float_output.h"
#include "ir/analysis.h"
#include "passes/decision_index.h"
#include "passes/placement/passes.h"

namespace tsq::passes {
namespace {

using ir::Model;
using ir::Node;

/// What was left float for such a layer, which turned out to be too small, has a kernel all the same.
void quantize_after_all(Decision* decision) {
  if (decision == nullptr || decision->reason != kernels::kFloatAfterLayer) return;
  decision->quantized = true;
  decision->reason.clear();
  decision->remedy.clear();
}

}  // namespace

void drop_output_observers(Model& gm, Report& report) {
  const DecisionIndex decisions(report);
  std::vector<Node*> idle;
  for (Node* layer : ir::nodes_in_order(*gm.graph)) {
    if (ir::observed_qconfig(gm, layer) == nullptr) continue;
    Node* observer = ir::only_reader(layer);
    if (observer == nullptr || !ir::is_observer(observer)) continue;
    const Node* activation = ir::only_reader(observer);
    if (activation == nullptr || ir::observed_qconfig(gm, activation) != nullptr) continue;
    if (kernels::stays_float_after(gm, layer, activation))
      idle.push_back(observer);
    else
      quantize_after_all(decisions.of(activation));
  }
  for (Node* observer : idle) {
    observer->output()->replaceAllUsesWith(observer->input(0));
    observer->destroy();
  }
}

}  // namespace tsq::passes
