#include "passes/observe/observer_result.h"

#include <algorithm>

#include "observers/observer_module.h"

namespace tsq::passes {

ObserverResult observer_result(const ObserverSpec& spec, const torch::jit::Module& observer) {
  if (spec.observer == "_InputEqualizationObserver" || spec.observer == "ChannelStatisticsObserver" ||
      spec.observer == "InputProductsObserver")
    return {};
  ObserverResult result{.saw_data = saw_data(observer), .saw_other_dtype = saw_other_dtype(observer)};
  const bool has_qparams = spec.observer != "PlaceholderObserver" && spec.observer != "NoopObserver" &&
                           spec.observer != "RecordingObserver" && spec.observer != "ReuseInputObserver";
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
