#include "passes/place/rounding.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "ir/analysis.h"
#include "ir/quantize_operators.h"
#include "match/root_modules.h"
#include "observers/observer_module.h"
#include "passes/context/custom_lstm.h"
#include "passes/context/nodes.h"
#include "torchscript/modules/reference/reference_module.h"

namespace tsq::passes {
namespace {

using c10::ScalarType;

bool is_integer(ScalarType dtype) {
  return dtype == ScalarType::QUInt8 || dtype == ScalarType::QInt8 || dtype == ScalarType::QInt32;
}

/// Whether a value is an input of the model that arrives quantized (E-11).
bool arrives_quantized(const Model& model, const PassContext& context, const Value* value) {
  const auto& indexes = context.custom.input_quantized_indexes();
  return std::ranges::any_of(indexes, [&](int index) {
    const auto position = static_cast<std::size_t>(index) + 1;
    return position < model.graph->inputs().size() && model.graph->inputs()[position] == value;
  });
}

/// The observer that rounds a value, also one that the branches of an if return: all by the same one.
std::optional<std::size_t> rounding_observer(const Value* value) {
  const Node* node = value->node();
  if (ir::is_observer(node)) return ir::observer_index(node);
  if (node->kind() != c10::prim::If) return std::nullopt;
  std::optional<std::size_t> common;
  for (const torch::jit::Block* block : node->blocks()) {
    const Value* returned = block->outputs()[value->offset()];
    if (ir::is_no_value(returned)) continue;
    const auto own = rounding_observer(returned);
    if (!own || (common && *common != *own)) return std::nullopt;
    common = own;
  }
  return common;
}

}  // namespace

bool becomes_rounding(const ir::ObserverEntry& observer) {
  const ResolvedObserver resolved = resolve(observer.spec);
  if (saw_other_dtype(observer.module.value())) return false;
  if (resolved.is_dynamic || resolved.dtype == ScalarType::Half) return true;
  return is_integer(resolved.dtype) && finds_qparams(observer.spec);
}

bool is_rounded(const Model& model, const PassContext& context, const Value* value) {
  const Value* observed = before_channel_observers(model, const_cast<Value*>(value));
  const Node* node = observed->node();
  if (rounding_observer(observed) || node->kind() == ir::kDequantize) return true;
  if (ir::is_standalone(model, node)) return ir::call_of(model, node).standalone->output_is_quantized;
  if (const Node* lstm = custom_lstm_of(model, observed)) return ir::observed_qconfig(model, lstm) != nullptr;
  return arrives_quantized(model, context, observed);
}

Value* exact(const Model& model, Value* value) {
  const Node* node = before_channel_observers(model, value)->node();
  return is_static_rounding(model, node) ? const_cast<Node*>(node)->input(0) : value;
}

bool is_of_another_class(Symbol reference, const ir::ModuleCall& call) {
  const std::optional<Symbol> known = torchscript::pytorch_class_of(reference);
  return known && *known != ir::root_of(call).type;
}

bool has_registered_reference(const Model& model, const PassContext& context, const Node* node) {
  const ir::ModuleCall& call = ir::call_of(model, node);
  const auto reference = match::reference_module_of(context.table, call);
  return reference &&
         (torchscript::is_registered_reference(*reference) || is_of_another_class(*reference, call));
}

ir::Weighted* int8_layer(Model& model, const PassContext& context, const Node* node) {
  return const_cast<ir::Weighted*>(int8_layer(std::as_const(model), context, node));
}

const ir::Weighted* int8_layer(const Model& model, const PassContext& context, const Node* node) {
  const ir::Weighted* weighted =
      is_in_int8(ir::placement_of(model, node)) ? weighted_at(model, node) : nullptr;
  return weighted != nullptr && !has_registered_reference(model, context, node) ? weighted : nullptr;
}

}  // namespace tsq::passes
