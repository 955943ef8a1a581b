#pragma once

#include <ATen/ATen.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "observers/observer_module.h"
#include "passes/context/nodes.h"

/// A layer that is called several times has one set of weights: what its calls have seen belongs to all.
namespace tsq::passes {

/// Whether two calls whose weights come from one tensor multiply with the same numbers.
inline bool have_one_weight(const ir::Weighted& a, const ir::Weighted& b) {
  return a.weight.sizes() == b.weight.sizes() &&
         (a.weight.const_data_ptr() == b.weight.const_data_ptr() || at::equal(a.weight, b.weight));
}

/// What the calls of one layer have seen, as one observer.
class PooledObservers {
 public:
  /// `channels`: what a call's observer counts; calls of one weight that differ in it are not pooled.
  void add(ir::Weighted& call, const torch::jit::Module& found, int64_t channels) {
    Layer& layer = layer_of(call, channels);
    layer.calls.push_back(&call);
    if (layer.calls.size() == 1) {
      layer.observer = found;
      return;
    }
    if (layer.calls.size() == 2)
      layer.observer = layer.observer->deepcopy();  // the first call's own stays as it is
    merge_observer(*layer.observer, found);
  }

  /// `give(call, observer)` for each call.
  template <typename Give>
  void to_each_call(const Give& give) const {
    for (const auto& [origin, layers] : layers_) {
      for (const Layer& layer : layers) {
        for (ir::Weighted* call : layer.calls) give(*call, *layer.observer);
      }
    }
  }

 private:
  struct Layer {
    std::vector<ir::Weighted*> calls{};
    std::optional<torch::jit::Module> observer{};
  };

  /// Calls into which something else was folded have another weight.
  Layer& layer_of(const ir::Weighted& call, int64_t channels) {
    std::vector<Layer>& layers = layers_[{ir::origin_of(call).const_data_ptr(), channels}];
    const auto found = std::ranges::find_if(
        layers, [&](const Layer& layer) { return have_one_weight(*layer.calls.front(), call); });
    return found != layers.end() ? *found : layers.emplace_back();
  }

  std::map<std::pair<const void*, int64_t>, std::vector<Layer>> layers_;  ///< by origin and channels
};

/// Whether two calls are of one layer: with the same weight, or with equal ones where something was folded
/// into each.
inline bool are_of_one_layer(const ir::ModuleCall& a, const ir::ModuleCall& b) {
  const ir::Weighted& first = *ir::weighted_of(a);
  const ir::Weighted& second = *ir::weighted_of(b);
  const bool has_one_origin = ir::origin_of(first).const_data_ptr() == ir::origin_of(second).const_data_ptr();
  return (a.path == b.path || has_one_origin) && have_one_weight(first, second);
}

/// Calls that no data reached are given what another call of their layer has seen, so that they go on sharing
/// its weights. `part`: the member of ir::LayerStatistics; `is_known(value)`: whether it was seen.
template <typename Part, typename IsKnown>
void give_to_unseen_calls(ir::Model& model, Part ir::LayerStatistics::*part, const IsKnown& is_known) {
  std::vector<ir::ModuleCall*> seen;
  std::vector<ir::ModuleCall*> unseen;
  for (const ir::Node* node : ir::nodes_in_order(*model.graph)) {
    if (const ir::Weighted* weighted = weighted_at(model, node))
      (is_known(weighted->seen.*part) ? seen : unseen).push_back(&ir::call_of(model, node));
  }
  for (ir::ModuleCall* call : unseen) {
    const auto found = std::ranges::find_if(
        seen, [&](const ir::ModuleCall* each) { return are_of_one_layer(*each, *call); });
    if (found != seen.end()) ir::weighted_of(*call)->seen.*part = ir::weighted_of(**found)->seen.*part;
  }
}

}  // namespace tsq::passes
