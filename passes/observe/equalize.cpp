// Puts input equalization observers in front of the layers that are to be equalized
// (torch/ao/quantization/fx/prepare.py, _maybe_insert_input_equalization_observers_for_node).
//   x → observer → linear   becomes   x → observer → equalization observer → linear

#include <fmt/format.h>
#include <torch/csrc/jit/ir/constants.h>

#include <algorithm>

#include "ir/analysis.h"
#include "ir/edit.h"
#include "match/equalizable.h"
#include "match/qconfig_lookup.h"
#include "passes/decision_index.h"
#include "passes/observe/layer_observers.h"
#include "passes/observe/passes.h"

namespace tsq::passes {
namespace {

using ir::Model;
using ir::Node;
using ir::Value;

bool is_quantized(const Model& gm, const Node* node) {
  const ir::NodeState* state = ir::state_of(gm, node);
  return state != nullptr && state->qconfig.has_value();
}

/// A quantized operator that reads `value`, also after observers of it; null when `reader` is the only one.
const Node* other_reader(const Model& gm, const Value* value, const Node* reader) {
  for (const Node* user : ir::users(value)) {
    if (ir::is_observer(user)) {
      if (const Node* found = other_reader(gm, user->output(), reader)) return found;
    } else if (user != reader && is_quantized(gm, user)) {
      return user;
    }
  }
  return nullptr;
}

std::string name_of(const Model& gm, const Node* node) {
  if (ir::is_module_call(node)) return ir::call_of(gm, node).path;
  return node->outputs().empty() ? ir::display_name(gm, node) : node->outputs().front()->debugName();
}

/// The groups of a convolution; empty when they are not a constant.
std::optional<int64_t> groups_of(const Model& gm, const Node* node) {
  if (ir::is_module_call(node)) return ir::weighted_of(ir::call_of(gm, node))->groups;
  constexpr std::size_t kGroups = 6;
  const auto arguments = ir::arguments(node);
  if (arguments.size() <= kGroups) return 1;
  const auto groups = torch::jit::toIValue(arguments[kGroups].value);
  return groups && groups->isInt() ? std::optional(groups->toInt()) : std::nullopt;
}

/// Why an operator with an equalization config cannot be equalized; empty when it can.
std::string refusal(const Model& gm, const Node* node, const match::Equalizable& layer,
                    bool is_observed_root) {
  if (!is_observed_root) return "it is not quantized";
  Value* input = ir::arguments(node).front().value;
  if (!ir::is_observer(input->node())) return "its input is not observed";
  if (const Node* other = other_reader(gm, input->node()->input(0), node))
    return fmt::format("it is part of a branch, and '{}' reads the same tensor", name_of(gm, other));
  if (const auto groups = groups_of(gm, node); groups != 1)
    return "the channels of a grouped convolution's input and weight do not correspond";
  if (layer.weight != nullptr && !match::parameter_after(gm, layer.weight))
    return "its weight is not a parameter of the model";
  return {};
}

void insert_equalizer(Model& gm, Node* node, ObserverSpec spec, int64_t channel_axis) {
  Value* observed = ir::arguments(node).front().value;
  spec.ch_axis = channel_axis;
  const std::size_t index = gm.observers.size();
  gm.observers.push_back({.name = fmt::format("equalization_process_{}", index),
                          .spec = std::move(spec),
                          .layer = gm.observers[ir::observer_index(observed->node())].layer});
  ir::replace_operand(node, observed, insert_layer_observer(gm, observed, index, node)->output());
}

}  // namespace

void equalize(Model& gm, const MatchTable& table, const EqualizationMapping& mapping, Report& report) {
  const auto configs = match::find_qconfigs(gm, mapping.as_qconfigs());
  const DecisionIndex decisions(report);
  for (Node* node : ir::nodes_in_order(*gm.graph)) {
    const auto config = configs.find(node);
    if (config == configs.end() || !config->second.qconfig) continue;
    const auto layer = match::equalizable(gm, node);
    if (!layer) continue;
    const ir::NodeState* state = ir::state_of(gm, node);
    const auto match = table.match_of.find(node);
    const bool is_observed_root = state != nullptr && state->observed && match != table.match_of.end() &&
                                  table.matches[match->second].root == node;
    const std::string reason = refusal(gm, node, *layer, is_observed_root);
    if (Decision* decision = decisions.of(node))
      decision->equalization = reason.empty() ? "equalized" : fmt::format("not equalized: {}", reason);
    if (reason.empty()) insert_equalizer(gm, node, config->second.qconfig->activation, layer->channel_axis);
  }
}

}  // namespace tsq::passes
