// Puts input equalization observers in front of the layers that are to be equalized
// (torch/ao/quantization/fx/prepare.py, _maybe_insert_input_equalization_observers_for_node).
//   x → observer → linear   becomes   x → observer → equalization observer → linear

#include <fmt/format.h>

#include <utility>

#include "ir/analysis.h"
#include "ir/constants.h"
#include "ir/edit.h"
#include "match/equalizable.h"
#include "match/qconfig_lookup.h"
#include "passes/context/nodes.h"
#include "passes/match/matches.h"
#include "passes/observe/layer_observers.h"
#include "passes/observe/passes.h"

namespace tsq::passes {
namespace {

/// A quantized operator that reads `value`, also after observers of it; null when `reader` is the only one.
const Node* other_reader(const Model& model, const Value* value, const Node* reader) {
  for (const Node* user : ir::users(value)) {
    if (ir::is_observer(user)) {
      if (const Node* found = other_reader(model, user->output(), reader)) return found;
    } else if (user != reader && qconfig_of(model, user)) {
      return user;
    }
  }
  return nullptr;
}

std::string name_of(const Model& model, const Node* node) {
  if (ir::is_module_call(node)) return ir::call_of(model, node).path;
  return node->outputs().empty() ? ir::display_name(model, node) : node->outputs().front()->debugName();
}

/// The groups of a convolution; empty when they are not a constant.
std::optional<int64_t> groups_of(const Model& model, const Node* node) {
  if (ir::is_module_call(node)) return ir::weighted_of(ir::call_of(model, node))->groups;
  constexpr std::size_t kGroups = 6;
  const auto arguments = ir::arguments(node);
  return arguments.size() > kGroups ? ir::whole_number_constant(arguments[kGroups].value) : 1;
}

/// Why an operator with an equalization config cannot be equalized; empty when it can.
std::string refusal(const Model& model, const Node* node, const match::Equalizable& layer) {
  if (!is_observed_root(model, node)) return "it is not quantized";
  Value* input = ir::arguments(node).front().value;
  if (!ir::is_observer(input->node())) return "its input is not observed";
  if (const Node* other = other_reader(model, input->node()->input(0), node))
    return fmt::format("it is part of a branch, and '{}' reads the same tensor", name_of(model, other));
  if (const auto groups = groups_of(model, node); groups != 1)
    return "the channels of a grouped convolution's input and weight do not correspond";
  if (layer.weight != nullptr && !match::parameter_after(model, layer.weight))
    return "its weight is not a parameter of the model";
  return {};
}

void insert_equalizer(Model& model, Node* node, ObserverSpec spec, int64_t channel_axis) {
  Value* observed = ir::arguments(node).front().value;
  spec.ch_axis = channel_axis;
  const std::size_t index = new_observer(
      model, std::move(spec), ir::observer_of(model, observed->node()).layer, "equalization_process");
  ir::replace_operand(node, observed, insert_layer_observer(model, observed, index, node)->output());
}

}  // namespace

bool equalize(Model& model, const PassContext& context) {
  if (context.equalization.empty()) return false;
  const auto configs = match::find_qconfigs(model, context.equalization.as_qconfigs());
  return change_nodes(model, [&](Node* node) {
    const auto config = configs.find(node);
    if (config == configs.end() || !config->second.qconfig) return false;
    const auto layer = match::equalizable(model, node);
    if (!layer) return false;
    const std::string reason = refusal(model, node, *layer);
    if (Decision* decision = ir::decision_of(model, node))
      decision->equalization = reason.empty() ? "equalized" : fmt::format("not equalized: {}", reason);
    if (reason.empty())
      insert_equalizer(model, node, config->second.qconfig->activation, layer->channel_axis);
    return reason.empty();
  });
}

}  // namespace tsq::passes
