// What each channel that a weighted layer reads is like, for equalize_across_layers and correct_biases.
//   x → observer → conv   becomes   x → observer → channel observer → conv

#include <fmt/format.h>

#include <map>

#include "modules/weighted.h"
#include "observers/observer_module.h"
#include "passes/passes.h"

namespace tsq::passes {
namespace {

using ir::GraphModule;
using ir::Node;
using ir::Value;

/// Which layers a correction is known for. A transposed convolution's taps do not all meet every output.
bool can_be_corrected(const GraphModule& gm, const Node* node) {
  if (!ir::is_module_call(node) || ir::is_standalone(gm, node)) return false;
  const ir::ModuleCall& call = ir::call_of(gm, node);
  const ir::NodeState* state = ir::state_of(gm, node);
  const Symbol root = call.members.empty() ? call.type : call.members.front().type;
  return ir::weighted_of(call) != nullptr && !modules::is_transposed(root) && state != nullptr &&
         state->observed && state->qconfig && !resolve(state->qconfig->activation).is_dynamic;
}

bool is_channel_observer(const GraphModule& gm, const Node* node) {
  return ir::is_observer(node) &&
         gm.observers[ir::observer_index(node)].spec.observer == "ChannelStatisticsObserver";
}

}  // namespace

void observe_channels(GraphModule& gm) {
  std::map<std::pair<const Value*, int64_t>, Node*> observers;  // by what they see and the axis of channels
  for (Node* node : ir::nodes_in_order(*gm.graph)) {
    if (!can_be_corrected(gm, node)) continue;
    const ir::ModuleCall& call = ir::call_of(gm, node);
    Value* input = node->input(0);
    // A convolution's input has its channels in front of as many dimensions as there are strides.
    const auto dims = static_cast<int64_t>(ir::weighted_of(call)->stride.size());
    Node*& observer = observers[{input, dims}];
    if (observer == nullptr) {
      gm.observers.push_back({fmt::format("activation_post_process_{}", gm.observers.size()),
                              {.observer = "ChannelStatisticsObserver", .ch_axis = -1 - dims},
                              call.path});
      observer = ir::insert_observer(gm, input, gm.observers.size() - 1);
    }
    node->replaceInput(0, observer->output());
  }
}

void take_channel_statistics(GraphModule& gm, std::span<const torch::jit::Module> observers) {
  for (Node* node : ir::nodes_in_order(*gm.graph)) {
    if (!ir::is_module_call(node) || node->inputs().empty()) continue;
    const Node* observer = node->input(0)->node();
    if (!is_channel_observer(gm, observer)) continue;
    const torch::jit::Module& found = observers[ir::observer_index(observer)];
    if (ir::Weighted* weighted = ir::weighted_of(ir::call_of(gm, node));
        weighted != nullptr && saw_data(found))
      weighted->input = {.mean = found.attr("mean").toTensor(),
                         .mean_square = found.attr("mean_square").toTensor(),
                         .min = found.attr("min_val").toTensor(),
                         .max = found.attr("max_val").toTensor()};
    node->replaceInput(0, observer->input(0));
  }
  for (Node* node : ir::nodes_in_order(*gm.graph)) {
    if (!is_channel_observer(gm, node)) continue;
    node->output()->replaceAllUsesWith(node->input(0));
    node->destroy();
  }
}

}  // namespace tsq::passes
