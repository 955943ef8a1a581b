// What each operator wants its inputs and output to be, before the backend is asked.

#include "passes/observe/target_infos.h"

#include <algorithm>
#include <array>

#include "config/names/observer_classes.h"
#include "ir/analysis.h"
#include "passes/context/custom_lstm.h"
#include "passes/context/names.h"
#include "passes/match/matches.h"

namespace tsq::passes {
namespace {

constexpr std::array kQuantizedDtypes{ScalarType::QUInt8, ScalarType::QInt8, ScalarType::QInt32,
                                      ScalarType::Half,   ScalarType::Byte,  ScalarType::Char,
                                      ScalarType::Short,  ScalarType::Int};

bool is_reuse_input(const QConfig& qconfig) {
  return qconfig.activation.observer == observer_classes::kReuseInput &&
         qconfig.weight.observer == observer_classes::kNoop;
}

TargetInfo of_float() {
  return {.input = placeholder(ScalarType::Float), .output = placeholder(ScalarType::Float)};
}

/// Which arguments of an operator are its weight and bias, in the rows of the table that name it.
void find_indexes(const Model& model, const Node* node, const BackendConfig& table, TargetInfo& info) {
  for (const Symbol& target : ir::targets(model, node)) {
    for (const BackendPatternConfig& row : table.configs()) {
      if (row.key() != Pattern(target)) continue;
      for (const auto& [argument, index] : row.input_type_to_index) {
        if (argument == "weight") info.weight_index = index;
        if (argument == "bias") info.bias_index = index;
      }
    }
  }
}

TargetInfo target_info(const Model& model, const Node* node, const QConfig& qconfig, const ir::Match& match,
                       const BackendConfig& table) {
  const WantedObserver activation = wanted_observer(qconfig.activation);
  const WantedObserver weight = wanted_observer(qconfig.weight);
  const bool half =
      activation.dtype == ScalarType::Half && weight.dtype == ScalarType::Half && !activation.is_dynamic;
  TargetInfo info{.input = activation,
                  .weight = weight,
                  .bias = placeholder(half ? ScalarType::Half : ScalarType::Float),
                  .output = activation,
                  .shares_observer = match.shares_observer,
                  .reuses_input = is_reuse_input(qconfig)};
  if (!ir::is_module_call(node)) find_indexes(model, node, table, info);
  return info;
}

}  // namespace

WantedObserver wanted_observer(const ObserverSpec& spec) {
  const ResolvedObserver resolved = resolve(spec);
  return {spec, resolved.dtype, resolved.is_dynamic};
}

WantedObserver placeholder(ScalarType dtype) {
  return wanted_observer({.observer = observer_classes::kPlaceholder, .dtype = dtype});
}

bool is_quantized_dtype(ScalarType dtype) {
  return std::ranges::find(kQuantizedDtypes, dtype) != kQuantizedDtypes.end();
}

Role TargetInfo::role_of(std::size_t argument) const {
  if (weight_index == static_cast<int>(argument)) return Role::Weight;
  if (bias_index == static_cast<int>(argument)) return Role::Bias;
  return Role::Activation;
}

const ir::Match* match_of(const Model& model, const Node* node) {
  const ir::NodeRecord* record = ir::record_of(model, node);
  return record == nullptr || !record->match ? nullptr : &model.matches.at(*record->match);
}

TargetInfos::TargetInfos(const Model& model, const PassContext& context)
    : model_(model), masks_(find_masks(model)) {
  const auto nodes = ir::nodes_in_order(*model.graph);
  for (const Node* node : nodes) infos_[node] = of_float();
  for (const ir::Match& match : model.matches) {
    const MaybeQConfig qconfig = qconfig_of(model, match.last);
    if (!qconfig) continue;
    for (const Node* node : match.nodes)
      infos_[node] = target_info(model, node, *qconfig, match, context.table);
  }
  for (const Node* node : nodes) {
    if (has_no_tensor_arguments(node)) infos_[node] = {};
  }
  for (const Node* node : masks_.nodes) {
    infos_[node].input.reset();
    infos_[node].output.reset();
  }
  for (const int index : context.custom.input_quantized_indexes()) {
    const auto position = static_cast<std::size_t>(index) + 1;
    if (index >= 0 && position < model.graph->inputs().size())
      quantized_inputs_.insert(model.graph->inputs()[position]);
  }
}

std::optional<WantedObserver> TargetInfos::of_value(const Value* value) const {
  const Node* node = value->node();
  if (ir::is_observer(node)) return of_value(node->input(0));
  if (const Node* lstm = custom_lstm_of(model_, value)) return infos_.at(lstm).output;
  if (quantized_inputs_.contains(value)) return placeholder(ScalarType::QUInt8);
  if (!ir::holds_tensor(value) || masks_.inputs.contains(value)) return std::nullopt;
  const auto found = infos_.find(node);
  return found == infos_.end() ? placeholder(ScalarType::Float) : found->second.output;
}

void TargetInfos::refuse(const ir::Match& match) {
  for (const Node* node : match.nodes) {
    if (!has_no_tensor_arguments(node)) infos_[node] = of_float();
  }
}

}  // namespace tsq::passes
