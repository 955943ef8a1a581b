#include "trial/captured.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "io/samples.h"
#include "pipeline/operator_watch.h"
#include "trial/program_values.h"

namespace tsq::detail {
namespace {

const at::Tensor* first_tensor(std::span<const c10::IValue> values) {
  const auto found = std::ranges::find_if(
      values, [](const c10::IValue& value) { return value.isTensor() && value.toTensor().defined(); });
  return found == values.end() ? nullptr : &found->toTensor();
}

bool shares_memory(const at::Tensor& output, const std::vector<at::IValue>& inputs) {
  return std::ranges::any_of(inputs, [&](const at::IValue& value) {
    return value.isTensor() && value.toTensor().defined() && value.toTensor().has_storage() &&
           output.has_storage() && output.is_alias_of(value.toTensor());
  });
}

Captured begun(const at::RecordFunction& function, LayerNames& layers) {
  Captured op{.kind = function.name(), .path = layers.of(function), .name = function.operator_name()};
  op.layer = with_underscores(op.path);
  const auto arguments = arguments_of(function);
  op.inputs.assign(arguments.begin(), arguments.end());
  if (const at::Tensor* input = first_tensor(op.inputs)) op.input = input->clone();
  return op;
}

void end(const at::RecordFunction& function, Captured& op) {
  const at::Tensor* output = first_tensor(results_of(function));
  if (output == nullptr) return;
  const auto schema = function.operator_schema();
  const auto* alias = schema && !schema->returns().empty() ? schema->returns().front().alias_info() : nullptr;
  op.is_view = alias != nullptr && !alias->isWrite();
  op.overwrites = alias == nullptr && shares_memory(*output, op.inputs);
  op.output = output->clone();
}

std::vector<Captured> operators_of_run(torch::jit::Module& module, const Sample& sample) {
  LayerNames layers(module);
  std::vector<Captured> operators;
  Sample arguments = copy_of(sample);
  const OperatorWatch watch(
      [&](const at::RecordFunction& function) { operators.push_back(begun(function, layers)); },
      [&](const at::RecordFunction& function) { end(function, operators.back()); }, true);
  module.get_method("forward")(std::move(arguments));
  return operators;
}

}  // namespace

std::string with_underscores(std::string path) {
  std::ranges::replace(path, '.', '_');
  return path;
}

std::vector<Captured> capture(torch::jit::Module& module, const Sample& sample) {
  const c10::InferenceMode no_gradients;
  std::vector<Captured> all;
  for (Captured& op : operators_of_run(module, sample)) {
    if (!calls_program(op)) {
      all.push_back(std::move(op));
      continue;
    }
    for (Captured& operation : operations_within(op)) all.push_back(std::move(operation));
  }
  return all;
}

std::set<std::string> layers_in(const std::vector<Captured>& operators) {
  std::set<std::string> layers;
  for (const Captured& op : operators) {
    if (!op.layer.empty()) layers.insert(op.layer);
  }
  return layers;
}

std::vector<Segment> segments_of(const std::vector<Captured>& operators,
                                 const std::set<std::string>& layers) {
  std::vector<Segment> segments;
  for (std::size_t i = 0; i < operators.size(); ++i) {
    const std::string& layer = operators[i].layer;
    if (layers.contains(layer) && (segments.empty() || segments.back().layer != layer))
      segments.push_back({.layer = layer, .begin = i, .end = i});
    if (!segments.empty()) segments.back().end = i + 1;
  }
  return segments;
}

}  // namespace tsq::detail
