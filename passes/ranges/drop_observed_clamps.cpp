// Values were clamped for observers alone: quantizing cuts off the rest.
//   conv → clamp(-3) → observer → hardswish   becomes   conv → observer → hardswish

#include "ir/analysis.h"
#include "passes/observe/layer_observers.h"
#include "passes/ranges/passes.h"

namespace tsq::passes {
namespace {

/// Prepare has a record of every clamp of the user's.
bool is_for_observer(const ir::Model& model, const ir::Node* node) {
  return node->kind() == c10::aten::clamp && ir::record_of(model, node) == nullptr;
}

}  // namespace

bool drop_observed_clamps(ir::Model& model, const PassContext& /*context*/) {
  bool changed = false;
  for (ir::Node* observer : ir::nodes_in_order(*model.graph)) {
    if (!activation_after(model, observer)) continue;
    ir::Node* clamp = observer->input(0)->node();
    if (!is_for_observer(model, clamp)) continue;
    clamp->output()->replaceAllUsesWith(clamp->input(0));
    clamp->destroy();
    changed = true;
  }
  return changed;
}

}  // namespace tsq::passes
