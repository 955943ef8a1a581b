// Observers of channels in front of the linear layers after a LayerNorm (Xiao et al., "SmoothQuant", 2023).
//   ln → observer → q, k, v   becomes   ln → observer → equalization observer → q, k, v

#include <fmt/format.h>

#include "config/observer_classes.h"
#include "ir/analysis.h"
#include "ir/edit.h"
#include "match/equalizable.h"
#include "match/smoothable.h"
#include "passes/decision_index.h"
#include "passes/observe/channel_scales.h"
#include "passes/observe/passes.h"
#include "torchscript/tied_table.h"

namespace tsq::passes {
namespace {

using ir::Model;
using ir::Node;
using ir::Value;

/// Linear layers that read one observed tensor.
struct Group {
  Value* observed{};
  std::vector<Node*> layers{};
};

bool is_observed_root(const Model& gm, const MatchTable& table, const Node* node) {
  const ir::NodeState* state = ir::state_of(gm, node);
  const auto match = table.match_of.find(node);
  return state != nullptr && state->observed && match != table.match_of.end() &&
         table.matches[match->second].root == node;
}

/// Why a quantized linear layer is not smoothed; empty when it is.
std::string refusal(const Model& gm, Value* observed, const match::Equalizable& kind) {
  if (!ir::is_observer(observed->node())) return "its input is not observed";
  if (match::layer_norm_after(gm, observed) == nullptr) return "its input is not the output of a LayerNorm";
  if (kind.weight != nullptr && !match::parameter_after(gm, kind.weight))
    return "its weight is not a parameter of the model";
  return {};
}

void insert_channel_observer(Model& gm, const Group& group) {
  const ObserverSpec spec{.observer = observer_classes::kInputEqualization,
                          .dtype = c10::ScalarType::QUInt8,
                          .qscheme = c10::QScheme::PER_TENSOR_SYMMETRIC,
                          .ch_axis = -1};
  const std::size_t index = gm.observers.size();
  gm.observers.push_back({.name = fmt::format("smoothing_process_{}", index),
                          .spec = spec,
                          .layer = gm.observers[ir::observer_index(group.observed->node())].layer});
  Value* seen = ir::insert_observer(gm, group.observed, index)->output();
  for (Node* layer : group.layers) ir::replace_operand(layer, group.observed, seen);
}

void report_smoothing(const DecisionIndex& decisions, const Node* node, const std::string& text) {
  if (Decision* decision = decisions.of(node)) decision->equalization = text;
}

std::string smoothed(const Model& gm, const Node* node, const match::Equalizable& kind) {
  return torchscript::is_quantized_table(gm, passes::weight_of(gm, node, kind))
             ? "smoothed where that halves the error, because its weight is also the table of an embedding"
             : "smoothed";
}

}  // namespace

void smooth(Model& gm, const MatchTable& table, Report& report) {
  const DecisionIndex decisions(report);
  std::vector<Group> groups;
  std::unordered_map<const Value*, std::size_t> group_of;
  for (Node* node : ir::nodes_in_order(*gm.graph)) {
    const auto kind = match::equalizable(gm, node);
    constexpr int64_t kLinear = -1;  // the axis of its channels
    if (!kind || kind->channel_axis != kLinear || !is_observed_root(gm, table, node)) continue;
    Value* observed = ir::arguments(node).front().value;
    const std::string reason = refusal(gm, observed, *kind);
    report_smoothing(decisions, node,
                     reason.empty() ? smoothed(gm, node, *kind) : fmt::format("not smoothed: {}", reason));
    if (!reason.empty()) continue;
    const auto [group, is_new] = group_of.try_emplace(observed, groups.size());
    if (is_new) groups.push_back({.observed = observed});
    groups[group->second].layers.push_back(node);
  }
  for (const Group& group : groups) insert_channel_observer(gm, group);
}

}  // namespace tsq::passes
