// What each channel that a weighted layer reads is like, for the equalizing passes and correct_biases; and
// each that float operators read from a convolution.
//   x → observer → conv   becomes   x → observer → channel observer → conv
//   conv → observer → norm   gets a channel observer beside the norm
// So do the observers between layers whose channels may have factors (match/channel_flow.h).
//   conv → observer → add    gets a channel observer beside the addition
// A layer in a branch reads what enters the branch, which may be a part of the values with other channels
// than the rest: its observer stands in the branch.
//   x → observer → if c: conv(x)   becomes   x → observer → if c: x → channel observer → conv

#include <algorithm>
#include <map>
#include <tuple>

#include "config/names/observer_classes.h"
#include "ir/analysis.h"
#include "ir/edit.h"
#include "match/channel_flow.h"
#include "match/channel_scaling.h"
#include "passes/context/nodes.h"
#include "passes/observe/layer_observers.h"
#include "passes/observe/passes.h"

namespace tsq::passes {
namespace {

/// A convolution's tensors have their channels in front of as many dimensions as there are strides.
int64_t dimensions_of(const Model& model, const Node* layer) {
  return static_cast<int64_t>(ir::weighted_of(ir::call_of(model, layer))->stride.size());
}

std::size_t new_channel_observer(Model& model, const Node* beside, int64_t axis) {
  return new_observer(model, {.observer = observer_classes::kChannelStatistics, .ch_axis = axis},
                      ir::layer_of(model, beside));
}

std::size_t new_channel_observer(Model& model, const Node* layer) {
  return new_channel_observer(model, layer, -1 - dimensions_of(model, layer));
}

bool is_channel_observer(const Model& model, const Node* node) {
  return ir::is_observer(node) &&
         ir::observer_of(model, node).spec.observer == observer_classes::kChannelStatistics;
}

/// Whether any was put in.
bool observe_inputs(Model& model) {
  // By what they see, where, and the axis of channels.
  std::map<std::tuple<const Value*, const torch::jit::Block*, int64_t>, Node*> observers;
  for (Node* node : ir::nodes_in_order(*model.graph)) {
    if (observed_layer(model, node) == nullptr) continue;
    Node*& observer = observers[{node->input(0), node->owningBlock(), dimensions_of(model, node)}];
    if (observer == nullptr)
      observer = insert_layer_observer(model, node->input(0), new_channel_observer(model, node), node);
    node->replaceInput(0, observer->output());
  }
  return !observers.empty();
}

/// The observer of an output whose channels a later pass may multiply; null for others.
Node* scalable_output(const Model& model, const Node* node) {
  // An addend would have to have the factors as well.
  if (observed_layer(model, node) == nullptr || match::equalizable_layer(model, node) == nullptr ||
      dimensions_of(model, node) == 0 || node->inputs().size() != 1)
    return nullptr;
  Node* output = match::observer_after(model, node);
  return output != nullptr && match::is_read_in_float(model, output) ? output : nullptr;
}

bool observe_outputs(Model& model) {
  return change_nodes(model, [&](const Node* node) {
    Node* output = scalable_output(model, node);
    if (output != nullptr) ir::insert_observer(model, output->output(), new_channel_observer(model, node));
    return output != nullptr;
  });
}

/// Whether a channel observer sees all that an observer does.
bool has_channel_observer(const Model& model, const Node* observer) {
  return std::ranges::any_of(observer->output()->uses(), [&](const torch::jit::Use& use) {
    return is_channel_observer(model, use.user) && use.user->owningBlock() == observer->owningBlock();
  });
}

/// Whether what an observer sees will be rounded to bytes by one range.
bool is_rounded(const ObserverSpec& spec) {
  const ResolvedObserver config = resolve(spec);
  const bool is_byte = config.dtype == c10::ScalarType::QUInt8 || config.dtype == c10::ScalarType::QInt8;
  return is_byte && !config.is_dynamic;
}

/// Beside the observers of values whose channels may have factors, which have to fit into their ranges.
bool observe_between_layers(Model& model) {
  const match::ChannelFlow flow(
      model, [&](const Node* node) { return match::equalizable_layer(model, node); },
      /*is_calibrated=*/false);
  return change_nodes(model, [&](Node* node) {
    const match::Channels* channels = ir::is_observer(node) ? flow.of(node->output()) : nullptr;
    // How many neighbours a flattened channel has may change from call to call.
    if (channels == nullptr || channels->is_spread || !channels->shape.empty() || channels->keys.size() < 2 ||
        !is_rounded(ir::observer_of(model, node).spec) || is_channel_observer(model, node) ||
        has_channel_observer(model, node) ||
        std::ranges::all_of(channels->keys, [&](int key) { return flow.is_bound(key); }))
      return false;
    ir::insert_observer(model, node->output(), new_channel_observer(model, node, channels->axis));
    return true;
  });
}

}  // namespace

bool observe_channels(Model& model, const PassContext& /*context*/) {
  const bool sees_inputs = observe_inputs(model);
  const bool sees_outputs = observe_outputs(model);
  const bool sees_between = observe_between_layers(model);
  return sees_inputs || sees_outputs || sees_between;
}

}  // namespace tsq::passes
