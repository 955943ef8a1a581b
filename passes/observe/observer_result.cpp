#include "passes/observe/observer_result.h"

#include <algorithm>

#include "config/observer_classes.h"
#include "observers/observer_module.h"

namespace tsq::passes {

ObserverResult observer_result(const ObserverSpec& spec, const torch::jit::Module& observer) {
  if (spec.observer == observer_classes::kInputEqualization ||
      spec.observer == observer_classes::kChannelStatistics ||
      spec.observer == observer_classes::kInputProducts)
    return {};
  ObserverResult result{.saw_data = saw_data(observer), .saw_other_dtype = saw_other_dtype(observer)};
  const bool has_qparams =
      spec.observer != observer_classes::kPlaceholder && spec.observer != observer_classes::kNoop &&
      spec.observer != observer_classes::kRecording && spec.observer != observer_classes::kReuseInput &&
      spec.observer != observer_classes::kIdentity;
  if (has_qparams) result.qparams = calculate_qparams(observer);
  return result;
}

bool uses_observer(const ir::GraphModule& gm, std::size_t observer) {
  const auto nodes = ir::nodes_in_order(*gm.graph);
  return std::any_of(nodes.begin(), nodes.end(), [&](const ir::Node* node) {
    return ir::is_observer(node) && ir::observer_index(node) == observer;
  });
}

}  // namespace tsq::passes
