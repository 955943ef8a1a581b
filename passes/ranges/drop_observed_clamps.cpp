// Values were clamped for observers alone: quantizing cuts off the rest.
//   conv → clamp(-3) → observer → hardswish   becomes   conv → observer → hardswish

#include "passes/context/nodes.h"
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
  const auto is_clamped = [&](const ir::Node* node) {
    return activation_after(model, node) && is_for_observer(model, node->input(0)->node());
  };
  return change_nodes(model, is_clamped, [](ir::Node* observer) { bypass(observer->input(0)->node()); });
}

}  // namespace tsq::passes
