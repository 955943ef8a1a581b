// What each channel that a weighted layer reads is like, for the equalizing passes and correct_biases; and
// each that float operators read from a convolution.
//   x → observer → conv   becomes   x → observer → channel observer → conv
//   conv → observer → norm   gets a channel observer beside the norm
// A layer in a branch reads what enters the branch, which may be a part of the values with other channels
// than the rest: its observer stands in the branch.
//   x → observer → if c: conv(x)   becomes   x → observer → if c: x → channel observer → conv

#include <fmt/format.h>

#include <map>
#include <tuple>

#include "config/observer_classes.h"
#include "ir/analysis.h"
#include "ir/edit.h"
#include "passes/observe/channel_factors.h"
#include "passes/observe/layer_observers.h"
#include "passes/observe/passes.h"

namespace tsq::passes {
namespace {

using ir::Model;
using ir::Node;
using ir::Value;

void add_channel_observer(Model& gm, int64_t dims, const std::string& path) {
  gm.observers.push_back({fmt::format("activation_post_process_{}", gm.observers.size()),
                          {.observer = observer_classes::kChannelStatistics, .ch_axis = -1 - dims},
                          path});
}

ir::ChannelStatistics statistics_of(const torch::jit::Module& observer) {
  return {.mean = observer.attr("mean").toTensor(),
          .mean_square = observer.attr("mean_square").toTensor(),
          .min = observer.attr("min_val").toTensor(),
          .max = observer.attr("max_val").toTensor(),
          .sizes = observer.attr("sizes").toTensor()};
}

bool is_channel_observer(const Model& gm, const Node* node) {
  return ir::is_observer(node) &&
         gm.observers[ir::observer_index(node)].spec.observer == observer_classes::kChannelStatistics;
}

/// To the layer whose output a channel observer stands after.
void take_output(Model& gm, const Node* channel_observer, const torch::jit::Module& found) {
  const Node* node = channel_observer->input(0)->node();
  while (ir::is_observer(node) || commutes_with_scaling(gm, node)) node = ir::operands(node).front()->node();
  if (!ir::is_module_call(node)) return;
  if (ir::Weighted* weighted = ir::weighted_of(ir::call_of(gm, node)))
    weighted->output = statistics_of(found);
}

}  // namespace

void observe_channels(Model& gm) {
  // By what they see, where, and the axis of channels.
  std::map<std::tuple<const Value*, const torch::jit::Block*, int64_t>, Node*> observers;
  for (Node* node : ir::nodes_in_order(*gm.graph)) {
    if (observed_layer(gm, node) == nullptr) continue;
    // A convolution's input has its channels in front of as many dimensions as there are strides.
    const ir::ModuleCall& call = ir::call_of(gm, node);
    const auto dims = static_cast<int64_t>(ir::weighted_of(call)->stride.size());
    Node*& observer = observers[{node->input(0), node->owningBlock(), dims}];
    if (observer == nullptr) {
      add_channel_observer(gm, dims, call.path);
      observer = insert_layer_observer(gm, node->input(0), gm.observers.size() - 1, node);
    }
    node->replaceInput(0, observer->output());
  }
  for (Node* node : ir::nodes_in_order(*gm.graph)) {
    if (observed_layer(gm, node) == nullptr || equalizable_layer(gm, node) == nullptr) continue;
    const ir::ModuleCall& call = ir::call_of(gm, node);
    const auto dims = static_cast<int64_t>(ir::weighted_of(call)->stride.size());
    Node* output = observer_after(gm, node);
    if (output == nullptr) continue;
    const auto readers = ir::users(output->output());
    const bool is_read_in_part =
        readers.size() == 1 && (is_leaky(gm, readers[0]) || is_batch_norm(gm, readers[0]));
    if (!is_read_in_part && (dims == 0 || !is_read_in_float(gm, output))) continue;
    add_channel_observer(gm, dims, call.path);
    ir::insert_observer(gm, output->output(), gm.observers.size() - 1);
  }
}

void take_channel_statistics(Model& gm, std::span<const torch::jit::Module> observers) {
  std::vector<Node*> channel_observers;
  PooledObservers inputs;
  for (Node* node : ir::nodes_in_order(*gm.graph)) {
    if (!is_channel_observer(gm, node)) continue;
    channel_observers.push_back(node);
    const torch::jit::Module& found = observers[ir::observer_index(node)];
    if (!saw_data(found)) continue;
    if (node->output()->uses().empty()) take_output(gm, node, found);
    for (const torch::jit::Use& use : node->output()->uses()) {
      if (!ir::is_module_call(use.user)) continue;
      if (ir::Weighted* weighted = ir::weighted_of(ir::call_of(gm, use.user)))
        inputs.add(*weighted, found, found.attr("mean").toTensor().numel());
    }
  }
  inputs.to_each_call(
      [](ir::Weighted& call, const torch::jit::Module& observer) { call.input = statistics_of(observer); });
  give_to_unseen_calls(gm, &ir::Weighted::input,
                       [](const ir::ChannelStatistics& input) { return input.mean.defined(); });
  for (Node* node : channel_observers) {
    node->output()->replaceAllUsesWith(node->input(0));
    node->destroy();
  }
}

}  // namespace tsq::passes
