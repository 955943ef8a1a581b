// A fixed range is that of what an operator returns, not of what it takes.
//   x → observer of 0..1 → sigmoid   becomes   x → observer → sigmoid

#include <algorithm>
#include <map>

#include "config/names/observer_classes.h"
#include "ir/analysis.h"
#include "passes/context/nodes.h"
#include "passes/observe/passes.h"

namespace tsq::passes {
namespace {

bool is_fixed(const ObserverSpec& spec) {
  return spec.observer == observer_classes::kFixedQParams && resolve(spec).dtype == c10::ScalarType::QUInt8;
}

/// Whether a node returns values in the fixed range of its own.
bool has_fixed_range(const Model& model, const Node* node) {
  const QConfig* qconfig = ir::observed_qconfig(model, node);
  return qconfig != nullptr && is_fixed(qconfig->activation);
}

/// Another observer of the same value, with a range that it finds.
Node* finding_observer(const Model& model, const Value* value) {
  for (Node* user : ir::users(value)) {
    if (!ir::is_observer(user)) continue;
    const ObserverSpec& spec = ir::observer_of(model, user).spec;
    const ResolvedObserver resolved = resolve(spec);
    if (!is_fixed(spec) && resolved.dtype == c10::ScalarType::QUInt8 && !resolved.is_dynamic) return user;
  }
  return nullptr;
}

}  // namespace

bool observe_fixed_inputs(Model& model, const PassContext& /*context*/) {
  bool changed = false;
  std::map<std::size_t, std::vector<Node*>> fixed;  // index → observers of inputs alone
  for (Node* node : ir::nodes_in_order(*model.graph)) {
    if (ir::is_observer(node) && is_fixed(ir::observer_of(model, node).spec))
      fixed[ir::observer_index(node)].push_back(node);
  }
  for (const auto& [index, observers] : fixed) {
    const bool is_outputs = std::ranges::any_of(
        observers, [&](const Node* node) { return has_fixed_range(model, node->input(0)->node()); });
    if (is_outputs) continue;
    for (Node* node : observers) {
      Node* other = finding_observer(model, node->input(0));
      if (other == nullptr) continue;
      if (node->isBefore(other)) other->moveBefore(node);
      replace_node(node, other->output());
    }
    model.observers[index].spec = {.observer = observer_classes::kMSE};
    changed = true;
  }
  return changed;
}

}  // namespace tsq::passes
