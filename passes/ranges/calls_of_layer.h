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

/// What the calls of one layer have seen, as one observer.
class PooledObservers {
 public:
  /// `channels`: what a call's observer counts; calls of one weight that differ in it are not pooled.
  void add(ir::Weighted& call, const torch::jit::Module& found, int64_t channels) {
    Layer& layer = layers_[{call.weight.const_data_ptr(), channels}];
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
    for (const auto& [weight, layer] : layers_) {
      for (ir::Weighted* call : layer.calls) give(*call, *layer.observer);
    }
  }

 private:
  struct Layer {
    std::vector<ir::Weighted*> calls{};
    std::optional<torch::jit::Module> observer{};
  };
  std::map<std::pair<const void*, int64_t>, Layer> layers_;
};

/// Whether two calls are of one layer: with the same weight, or with equal ones where something was folded
/// into each.
inline bool are_of_one_layer(const ir::ModuleCall& a, const ir::ModuleCall& b) {
  const at::Tensor& first = ir::weighted_of(a)->weight;
  const at::Tensor& second = ir::weighted_of(b)->weight;
  return first.is_same(second) || first.const_data_ptr() == second.const_data_ptr() ||
         (a.path == b.path && first.sizes() == second.sizes() && at::equal(first, second));
}

/// Calls that no data reached are given what another call of their layer has seen, so that they go on sharing
/// its weights. `part`: the member of ir::Weighted; `is_known(value)`: whether it was seen.
template <typename Part, typename IsKnown>
void give_to_unseen_calls(ir::Model& model, Part ir::Weighted::*part, const IsKnown& is_known) {
  std::vector<ir::ModuleCall*> seen;
  std::vector<ir::ModuleCall*> unseen;
  for (const ir::Node* node : ir::nodes_in_order(*model.graph)) {
    if (const ir::Weighted* weighted = weighted_at(model, node))
      (is_known(weighted->*part) ? seen : unseen).push_back(&ir::call_of(model, node));
  }
  for (ir::ModuleCall* call : unseen) {
    const auto found = std::ranges::find_if(
        seen, [&](const ir::ModuleCall* each) { return are_of_one_layer(*each, *call); });
    if (found != seen.end()) ir::weighted_of(*call)->*part = ir::weighted_of(**found)->*part;
  }
}

}  // namespace tsq::passes
