// Observers of channels in front of the linear layers after a LayerNorm (Xiao et al., "SmoothQuant", 2023).
//   ln → observer → q, k, v   becomes   ln → observer → equalization observer → q, k, v

#include <fmt/format.h>

#include <unordered_map>
#include <utility>

#include "config/names/observer_classes.h"
#include "ir/analysis.h"
#include "ir/edit.h"
#include "match/channel_scaling.h"
#include "match/equalizable.h"
#include "match/smoothable.h"
#include "passes/observe/layer_observers.h"
#include "passes/observe/passes.h"
#include "torchscript/modules/tied_table.h"

namespace tsq::passes {
namespace {

/// Linear layers that read one observed tensor.
struct Group {
  Value* observed{};
  std::vector<Node*> layers{};
};

/// Why a quantized linear layer is not smoothed; empty when it is.
std::string refusal(const Model& model, Value* observed, const match::Equalizable& kind) {
  if (!ir::is_observer(observed->node())) return "its input is not observed";
  if (match::layer_norm_after(model, observed) == nullptr)
    return "its input is not the output of a LayerNorm";
  if (kind.weight != nullptr && !match::parameter_after(model, kind.weight))
    return "its weight is not a parameter of the model";
  return {};
}

void insert_channel_observer(Model& model, const Group& group) {
  const ObserverSpec spec{.observer = observer_classes::kInputEqualization,
                          .dtype = c10::ScalarType::QUInt8,
                          .qscheme = c10::QScheme::PER_TENSOR_SYMMETRIC,
                          .ch_axis = -1};
  const std::size_t index =
      new_observer(model, spec, ir::observer_of(model, group.observed->node()).layer, "smoothing_process");
  Value* seen = ir::insert_observer(model, group.observed, index)->output();
  for (Node* layer : group.layers) ir::replace_operand(layer, group.observed, seen);
}

std::string smoothed(const Model& model, const Node* node, const match::Equalizable& kind) {
  return torchscript::is_quantized_table(model, match::weight_of(model, node, kind))
             ? "smoothed where that halves the error, because its weight is also the table of an embedding"
             : "smoothed";
}

}  // namespace

bool smooth(Model& model, const PassContext& /*context*/) {
  std::vector<Group> groups;
  std::unordered_map<const Value*, std::size_t> group_of;
  for (Node* node : ir::nodes_in_order(*model.graph)) {
    const auto kind = match::equalizable(model, node);
    constexpr int64_t kLinear = -1;  // the axis of its channels
    if (!kind || kind->channel_axis != kLinear || !is_observed_root(model, node)) continue;
    Value* observed = ir::arguments(node).front().value;
    const std::string reason = refusal(model, observed, *kind);
    if (Decision* decision = ir::decision_of(model, node))
      decision->equalization =
          reason.empty() ? smoothed(model, node, *kind) : fmt::format("not smoothed: {}", reason);
    if (!reason.empty()) continue;
    const auto [group, is_new] = group_of.try_emplace(observed, groups.size());
    if (is_new) groups.push_back({.observed = observed});
    groups[group->second].layers.push_back(node);
  }
  for (const Group& group : groups) insert_channel_observer(model, group);
  return !groups.empty();
}

}  // namespace tsq::passes
