// The layers that no calibration data reached.

#include <unordered_set>

#include "ir/analysis.h"
#include "passes/place/passes.h"
#include "passes/place/uncalibrated.h"

namespace tsq::passes {
namespace {

/// The layers of observers that are in use and were not reached, in the observers' order.
std::vector<std::string> unobserved_layers(const Model& model) {
  std::unordered_set<const ir::ObserverEntry*> used;
  for (const Node* node : ir::nodes_in_order(*model.graph)) {
    if (ir::is_observer(node)) used.insert(&ir::observer_of(model, node));
  }
  std::vector<std::string> layers;
  for (const ir::ObserverEntry& entry : model.observers) {
    if (used.contains(&entry) && !was_reached(entry)) layers.push_back(entry.layer);
  }
  return layers;
}

}  // namespace

bool find_unobserved_layers(Model& model, const PassContext& /*context*/) {
  model.unobserved_layers = unobserved_layers(model);
  return !model.unobserved_layers.empty();
}

}  // namespace tsq::passes
