// What each channel that a weighted layer reads is like, for the equalizing passes and correct_biases; and
// each that float operators read from a convolution.
//   x → observer → conv   becomes   x → observer → channel observer → conv
//   conv → observer → norm   gets a channel observer beside the norm
// A layer in a branch reads what enters the branch, which may be a part of the values with other channels
// than the rest: its observer stands in the branch.
//   x → observer → if c: conv(x)   becomes   x → observer → if c: x → channel observer → conv

#include <map>
#include <tuple>

#include "config/names/observer_classes.h"
#include "ir/analysis.h"
#include "ir/edit.h"
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

std::size_t new_channel_observer(Model& model, const Node* layer) {
  return new_observer(
      model, {.observer = observer_classes::kChannelStatistics, .ch_axis = -1 - dimensions_of(model, layer)},
      ir::layer_of(model, layer));
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
  if (observed_layer(model, node) == nullptr || match::equalizable_layer(model, node) == nullptr)
    return nullptr;
  Node* output = match::observer_after(model, node);
  if (output == nullptr) return nullptr;
  const auto readers = ir::users(output->output());
  const bool is_read_in_part = readers.size() == 1 && (match::is_leaky(model, readers[0]) ||
                                                       match::is_affine_batch_norm(model, readers[0]));
  const bool is_convolution = dimensions_of(model, node) != 0;
  return is_read_in_part || (is_convolution && match::is_read_in_float(model, output)) ? output : nullptr;
}

bool observe_outputs(Model& model) {
  return change_nodes(model, [&](const Node* node) {
    Node* output = scalable_output(model, node);
    if (output != nullptr) ir::insert_observer(model, output->output(), new_channel_observer(model, node));
    return output != nullptr;
  });
}

}  // namespace

bool observe_channels(Model& model, const PassContext& /*context*/) {
  const bool sees_inputs = observe_inputs(model);
  const bool sees_outputs = observe_outputs(model);
  return sees_inputs || sees_outputs;
}

}  // namespace tsq::passes
