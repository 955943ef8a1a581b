// Observed modules → quantized modules (torch/ao/quantization/fx/convert.py, convert_custom_module).
//   y = observer(Observed(observer(x)))   →   y = Quantized(observer(x)), whose input and output are
//   quantized

#include <tsq/error.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "backends/kernels/engine_packing.h"
#include "ir/analysis.h"
#include "passes/context/custom_lstm.h"
#include "passes/context/nodes.h"
#include "passes/convert/passes.h"
#include "torchscript/modules/custom_module.h"

namespace tsq::passes {
namespace {

using ir::CustomState;
using ir::ModuleCall;

/// The observers of what a node returns.
std::vector<Node*> observers_after(const Node* node) {
  std::vector<Node*> observers = ir::users(node->output());
  std::erase_if(observers, [](const Node* user) { return !ir::is_observer(user); });
  return observers;
}

/// What they have found; none where the node's result is not rounded.
std::optional<QParams> output_qparams(const Model& model, const Node* node) {
  for (const Node* observer : observers_after(node)) {
    const ir::ObserverEntry& entry = ir::observer_of(model, observer);
    if (entry.result && entry.result->qparams) return entry.result->qparams;
  }
  return std::nullopt;
}

/// The first input is the only one that comes quantized, wherever it is read.
std::vector<int> first_inputs(const Node* node) {
  std::vector<int> indexes;
  for (std::size_t i = 0; i < node->inputs().size(); ++i) {
    if (node->input(i) == node->input(0)) indexes.push_back(static_cast<int>(i));
  }
  return indexes;
}

class CustomConversion {
 public:
  CustomConversion(Model& model, const PassContext& context) : model_(model), context_(context) {}

  bool convert(Node* node) {
    if (!ir::is_module_call(node) || ir::is_standalone(model_, node)) return false;
    const ModuleCall& call = ir::call_of(model_, node);
    const ir::NodeRecord* record = ir::record_of(model_, node);
    if (!call.module || record == nullptr || !record->lookup.qconfig ||
        !context_.convert_custom.is_observed_class(call.type))
      return false;
    const QuantType type = get_quant_type(*record->lookup.qconfig);
    if (type != QuantType::Static) return swap(node, *record, type, std::nullopt);
    const auto output = output_qparams(model_, node);
    const bool is_int8 = call.custom == CustomState::Observed && record->placement == ir::Placement::Int8;
    if (!is_int8 || !(output || is_custom_lstm(model_, node))) return false;
    swap(node, *record, type, output);
    for (Node* observer : observers_after(node)) bypass(observer);
    ir::call_of(model_, node).standalone =
        ir::StandaloneBoundary{.input_quantized_indexes = first_inputs(node), .output_is_quantized = true};
    return true;
  }

 private:
  bool swap(Node* node, const ir::NodeRecord& record, QuantType type, const std::optional<QParams>& output) {
    ModuleCall& call = ir::call_of(model_, node);
    const CustomModule* quantized = context_.convert_custom.quantized_module(call.type, type);
    const Where where{.layer = call.path, .op = std::string(call.type.name)};
    if (quantized == nullptr) {
      throw Error(ErrorCode::BadConfig,
                  "its qconfig is " + std::string(to_string(type)) +
                      ", and convert's custom config names no quantized module for that",
                  "name one under '" + std::string(to_string(type)) + "'", where);
    }
    const kernels::EnginePacking packing(context_.target);
    call.module = torchscript::quantized_module(*quantized, *call.module, *record.lookup.qconfig, output,
                                                node->inputs().size(), where);
    call.type = quantized->name;
    call.method = "forward";
    call.custom = CustomState::Quantized;
    if (Decision* decision = ir::decision_of(model_, node)) decision->kernel = std::string(call.type.name);
    return true;
  }

  Model& model_;
  const PassContext& context_;
};

}  // namespace

bool quantize_custom_modules(Model& model, const PassContext& context) {
  CustomConversion conversion(model, context);
  return change_nodes(model, [&](Node* node) { return conversion.convert(node); });
}

}  // namespace tsq::passes
