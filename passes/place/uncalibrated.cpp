#include "passes/place/uncalibrated.h"

#include <algorithm>
#include <vector>

#include "config/names/observer_classes.h"
#include "ir/analysis.h"
#include "observers/observer_module.h"
#include "operators/constant_expressions.h"
#include "passes/place/rounding.h"

namespace tsq::passes {
namespace {

/// Whether an observer finds a range, and none without data.
bool needs_data(const ir::Model& model, const ir::Node* observer) {
  // What a parameter is like, find_qparams finds out by itself. Channels that were never seen are not scaled.
  if (observer->input(0)->node()->kind() == c10::prim::GetAttr || is_channel_observer(model, observer))
    return false;
  const ObserverSpec& spec = ir::observer_of(model, observer).spec;
  const ResolvedObserver resolved = resolve(spec);
  return c10::isQIntType(resolved.dtype) && !resolved.is_dynamic && tsq::needs_data(spec);
}

}  // namespace

bool observes_values(const ir::ObserverEntry& entry) {
  const std::string& name = entry.spec.observer;
  return name != observer_classes::kInputEqualization && name != observer_classes::kChannelStatistics &&
         name != observer_classes::kInputProducts;
}

bool was_reached(const ir::ObserverEntry& entry) {
  return !observes_values(entry) || saw_data(entry.module.value());
}

bool is_uncalibrated(const ir::Model& model) {
  std::vector<const ir::Node*> without_data;
  for (const ir::Node* node : ir::nodes_in_order(*model.graph)) {
    if (!ir::is_observer(node) || !needs_data(model, node)) continue;
    const torch::jit::Module& observer = ir::observer_of(model, node).module.value();
    if (saw_data(observer) || tensors_not_finite(observer) > 0) return false;
    without_data.push_back(node);
  }
  if (without_data.empty()) return false;
  // Nor do weights that are computed of parameters need data.
  const operators::ConstantExpressions constants(model);
  return std::ranges::any_of(
      without_data, [&](const ir::Node* node) { return !constants.value_of(node->input(0)).has_value(); });
}

}  // namespace tsq::passes
