// Observers → quantize / dequantize pairs (torch/ao/quantization/fx/convert.py).
//   y = observer(x)   →   y = dequantize(quantize_per_tensor(x, scale, zero_point, dtype))

#include <ATen/ATen.h>

#include <algorithm>
#include <string>
#include <vector>

#include "backends/kernels/target.h"
#include "config/qscheme.h"
#include "ir/analysis.h"
#include "ir/edit.h"
#include "ir/fx_names.h"
#include "ir/live_nodes.h"
#include "ir/quantize_operators.h"
#include "observers/observer_module.h"
#include "passes/context/custom_lstm.h"
#include "passes/convert/passes.h"

namespace tsq::passes {
namespace {

using c10::ScalarType;
using ir::kDequantize;

/// K-05: the engine decides, not the observer.
Value* quantize_dynamic(const ir::Rewriter& rewriter, Value* input, ScalarType dtype,
                        const kernels::Target& target) {
  return rewriter.op("aten::quantize_per_tensor_dynamic",
                     {input, rewriter.constant(static_cast<int64_t>(dtype)),
                      rewriter.constant(kernels::reduces_dynamic_range(target))});
}

Value* round_to_half(const ir::Rewriter& rewriter, Value* input) {
  return rewriter.op(
      "aten::to", {input, rewriter.constant(static_cast<int64_t>(ScalarType::Half)), rewriter.constant(false),
                   rewriter.constant(false), rewriter.constant(c10::IValue())});
}

/// What the scale and zero point of an observer are named after in FX: the operator that it observes, or the
/// one that reads it where that has no QConfig (_get_module_path_and_prefix).
std::string qparams_prefix(const Model& model, const Node* observer) {
  const Node* maker = observer->input(0)->node();
  const ir::NodeRecord* record = ir::record_of(model, maker);
  if (record != nullptr && record->lookup.qconfig) return ir::layer_of(model, maker);
  const std::vector<Node*> readers = ir::users(observer->output());
  if (readers.empty()) return "";
  const auto linear =
      std::ranges::find_if(readers, [](const Node* reader) { return reader->kind() == c10::aten::linear; });
  return ir::layer_of(model, linear == readers.end() ? readers.front() : *linear) + "_input";
}

Value* quantize_static(const ir::Rewriter& rewriter, Model& model, Node* observer, const QParams& qparams) {
  Value* input = observer->input(0);
  Value* dtype = rewriter.constant(static_cast<int64_t>(qparams.dtype));
  const std::string& name = ir::observer_of(model, observer).layer;
  if (is_per_channel(qparams.qscheme)) {
    Value* scale = rewriter.attribute(name + "_scale", qparams.scale);
    Value* zero_point = rewriter.attribute(name + "_zero_point", qparams.zero_point);
    return rewriter.op("aten::quantize_per_channel",
                       {input, scale, zero_point, rewriter.constant(qparams.axis), dtype});
  }
  const torch::jit::WithInsertPoint guard(observer);
  Value* scale = ir::insert_double(model, name + "_scale", qparams.scale.item<float>());
  return rewriter.op("aten::quantize_per_tensor",
                     {input, scale, rewriter.constant(qparams.zero_point.item<int64_t>()), dtype});
}

/// What an observer saw, quantized; null where nothing quantizes it: placeholders for float32, other dtypes.
Value* quantize(Model& model, Node* observer, const kernels::Target& target) {
  const ir::Rewriter rewriter(model, observer);
  const ir::ObserverEntry& entry = ir::observer_of(model, observer);
  const ir::ObserverResult& found = entry.result.value();
  if (found.saw_other_dtype) return nullptr;
  const ResolvedObserver resolved = resolve(entry.spec);
  if (resolved.is_dynamic) return quantize_dynamic(rewriter, observer->input(0), resolved.dtype, target);
  if (resolved.dtype == ScalarType::Half) return round_to_half(rewriter, observer->input(0));
  const bool is_quantized_dtype = resolved.dtype == ScalarType::QUInt8 ||
                                  resolved.dtype == ScalarType::QInt8 || resolved.dtype == ScalarType::QInt32;
  if (!is_quantized_dtype || !found.qparams) return nullptr;
  return quantize_static(rewriter, model, observer, *found.qparams);
}

bool is_static(const Value* quantized) {
  return quantized->node()->kind() == ir::kQuantize || quantized->node()->kind() == ir::kQuantizePerChannel;
}

void replace_observer(Model& model, Node* observer, const kernels::Target& target) {
  Value* quantized = quantize(model, observer, target);
  if (quantized != nullptr && is_static(quantized))
    quantized->node()->s_(ir::kQParamsPrefix, qparams_prefix(model, observer));
  Value* result = quantized == nullptr ? observer->input(0)
                                       : ir::Rewriter(model, observer).op("aten::dequantize", {quantized});
  observer->output()->replaceAllUsesWith(result);
  observer->destroy();
}

/// The tensors that are taken out of a tuple, also out of tuples in it.
std::vector<Value*> elements_of(Value* tuple) {
  std::vector<Value*> elements;
  for (Node* user : ir::users(tuple)) {
    if (user->kind() != c10::prim::TupleUnpack) continue;
    for (Value* output : user->outputs()) {
      const bool is_tuple = output->type()->kind() == TypeKind::TupleType;
      const std::vector<Value*> inner = is_tuple ? elements_of(output) : std::vector<Value*>{output};
      elements.insert(elements.end(), inner.begin(), inner.end());
    }
  }
  return elements;
}

/// E-09: an LSTM reads its states quantized, and all that it returns is dequantized.
bool convert_states(Model& model, Node* node) {
  for (const ir::Argument& argument : ir::arguments(node)) {
    for (Value* element : argument.elements) {
      if (element->node()->kind() == kDequantize)
        ir::replace_operand(node, element, element->node()->input(0));
    }
  }
  for (Value* element : elements_of(node->output())) {
    Node* unpack = element->node();
    Value* dequantized = ir::Rewriter(model, unpack->next(), node).op("aten::dequantize", {element});
    element->replaceAllUsesAfterNodeWith(dequantized->node(), dequantized);
  }
  return true;
}

/// E-02: a standalone module reads its quantized inputs as they are, and its quantized output is dequantized.
bool convert_standalone_boundary(Model& model, Node* node) {
  bool has_changed = false;
  const ir::StandaloneBoundary& boundary = *ir::call_of(model, node).standalone;
  for (const int index : boundary.input_quantized_indexes) {
    const auto position = static_cast<std::size_t>(index);
    if (position >= node->inputs().size()) continue;
    Node* producer = node->input(position)->node();
    if (producer->kind() != kDequantize) continue;
    node->replaceInput(position, producer->input(0));
    has_changed = true;
  }
  if (is_custom_lstm(model, node)) return convert_states(model, node);
  if (!boundary.output_is_quantized) return has_changed;
  Value* dequantized = ir::Rewriter(model, node->next(), node).op("aten::dequantize", {node->output()});
  node->output()->replaceAllUsesAfterNodeWith(dequantized->node(), dequantized);
  return true;
}

bool is_container(const Node* node) {
  return node->kind() == c10::prim::ListConstruct || node->kind() == c10::prim::TupleConstruct ||
         node->kind() == c10::prim::DictConstruct;
}

/// The dequantize nodes that produce `value`, looked for in lists, tuples and dicts too.
void collect_dequantized(Value* value, std::vector<Value*>& found) {
  Node* node = value->node();
  if (node->kind() == kDequantize) found.push_back(value);
  if (!is_container(node)) return;
  for (Value* element : node->inputs()) collect_dequantized(element, found);
}

void replace_in_output(Node* user, Value* from, Value* to) {
  user->replaceInputWith(from, to);
  for (Value* input : user->inputs()) {
    if (is_container(input->node())) replace_in_output(input->node(), from, to);
  }
}

/// E-11: inputs that arrive quantized are dequantized.
bool dequantize_inputs(Model& model, const std::vector<int>& indexes) {
  for (const int index : indexes) {
    Value* input = model.graph->inputs().at(static_cast<std::size_t>(index) + 1);
    Value* result = ir::insert_before(*model.graph->nodes().begin(), "aten::dequantize", {input});
    input->replaceAllUsesAfterNodeWith(result->node(), result);
  }
  return !indexes.empty();
}

/// E-12: outputs that leave quantized lose their dequantize. A list or tuple has an index an element,
/// anything else is output 0 as a whole.
bool return_quantized(Model& model, const std::vector<int>& indexes) {
  Node* returned = model.graph->return_node();
  Node* made_by = returned->input(0)->node();
  const bool has_elements =
      made_by->kind() == c10::prim::ListConstruct || made_by->kind() == c10::prim::TupleConstruct;
  std::vector<Value*> dequantized;
  for (const int index : indexes) {
    const auto position = static_cast<std::size_t>(index);
    if (has_elements && position < made_by->inputs().size()) {
      collect_dequantized(made_by->input(position), dequantized);
    } else if (!has_elements && position == 0) {
      collect_dequantized(returned->input(0), dequantized);
    }
  }
  for (Value* value : dequantized) replace_in_output(returned, value, value->node()->input(0));
  return !dequantized.empty();
}

}  // namespace

bool convert(Model& model, const PassContext& context) {
  bool has_changed = false;
  for (Node* node : ir::LiveNodes(*model.graph)) {
    if (ir::is_observer(node)) {
      replace_observer(model, node, context.target);
      has_changed = true;
    } else if (ir::is_standalone(model, node)) {
      has_changed |= convert_standalone_boundary(model, node);
    }
  }
  ir::eliminate_dead_code(*model.graph);
  has_changed |= dequantize_inputs(model, context.custom.input_quantized_indexes());
  has_changed |= return_quantized(model, context.custom.output_quantized_indexes());
  ir::eliminate_dead_code(*model.graph);
  return has_changed;
}

}  // namespace tsq::passes
