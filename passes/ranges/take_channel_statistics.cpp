// What observers of channels have found goes to their layers.
//   x → observer → channel observer → conv   becomes   x → observer → conv

#include "config/names/observer_classes.h"
#include "ir/analysis.h"
#include "ir/channel_statistics.h"
#include "ir/live_nodes.h"
#include "match/channel_scaling.h"
#include "observers/observer_module.h"
#include "passes/context/nodes.h"
#include "passes/ranges/calls_of_layer.h"
#include "passes/ranges/passes.h"

namespace tsq::passes {
namespace {

using torch::jit::Module;

ir::ChannelStatistics statistics_of(const Module& observer) {
  return {.axis = observer.attr("ch_axis").toInt(),
          .mean = observer.attr("mean").toTensor(),
          .mean_square = observer.attr("mean_square").toTensor(),
          .min = observer.attr("min_val").toTensor(),
          .max = observer.attr("max_val").toTensor(),
          .sizes = observer.attr("sizes").toTensor()};
}

bool is_channel_observer(const Model& model, const Node* node) {
  return ir::is_observer(node) &&
         ir::observer_of(model, node).spec.observer == observer_classes::kChannelStatistics;
}

/// To the observer of the same values. What enters a branch may be a part of them.
void take_observed(const Node* channel_observer, const Module& found) {
  Node* node = channel_observer->input(0)->node();
  if (ir::is_observer(node) && node->owningBlock() == channel_observer->owningBlock())
    ir::set_channel_statistics(node, statistics_of(found));
}

/// To the convolution whose output a channel observer stands after.
void take_output(Model& model, const Node* channel_observer, const Module& found) {
  const Node* node = channel_observer->input(0)->node();
  while (ir::is_observer(node) || match::commutes_with_scaling(model, node))
    node = ir::operands(node).front()->node();
  ir::Weighted* weighted = weighted_at(model, node);
  if (weighted != nullptr && !weighted->stride.empty()) weighted->seen.output = statistics_of(found);
}

/// To the layers that read what a channel observer returns.
void take_inputs(Model& model, const Node* channel_observer, const Module& found, PooledObservers& inputs) {
  for (const torch::jit::Use& use : channel_observer->output()->uses()) {
    if (ir::Weighted* weighted = weighted_at(model, use.user))
      inputs.add(*weighted, found, found.attr("mean").toTensor().numel());
  }
}

}  // namespace

bool take_channel_statistics(Model& model, const PassContext& /*context*/) {
  std::vector<Node*> channel_observers;
  PooledObservers inputs;
  for (Node* node : ir::LiveNodes(*model.graph)) {
    if (!is_channel_observer(model, node)) continue;
    channel_observers.push_back(node);
    const Module& found = ir::observer_of(model, node).module.value();
    if (!saw_data(found)) continue;
    take_observed(node, found);
    if (node->output()->uses().empty()) {
      take_output(model, node, found);
    } else {
      take_inputs(model, node, found, inputs);
    }
  }
  inputs.to_each_call(
      [](ir::Weighted& call, const Module& observer) { call.seen.input = statistics_of(observer); });
  give_to_unseen_calls(model, &ir::LayerStatistics::input,
                       [](const ir::ChannelStatistics& input) { return input.mean.defined(); });
  for (Node* node : channel_observers) bypass(node);
  return !channel_observers.empty();
}

}  // namespace tsq::passes
