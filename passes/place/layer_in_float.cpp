#include "passes/place/layer_in_float.h"

#include "ir/analysis.h"
#include "ir/edit.h"
#include "passes/context/nodes.h"
#include "passes/place/rounding.h"

namespace tsq::passes {
namespace {

/// What a layer reads, not rounded where nothing but the layer asks for it.
ir::Value* exact_input(const ir::Model& model, ir::Node* layer) {
  ir::Value* rounded = before_channel_observers(model, layer->input(0));
  ir::Value* before = exact(model, rounded);
  return ir::observed_qconfig(model, before->node()) == nullptr ? before : rounded;
}

bool is_quantized(const ir::Model& model, const ir::Node* node) {
  return ir::observed_qconfig(model, node) != nullptr && node->kind() != c10::prim::GetAttr;
}

}  // namespace

void forget_input(ir::Weighted& weighted) {
  weighted.seen.input_products.reset();
  weighted.seen.input = {};
}

void compute_in_float(ir::Model& model, ir::Node* layer, ir::Reason reason, std::string_view detail) {
  layer->replaceInput(0, exact_input(model, layer));
  forget_input(*ir::weighted_of(ir::call_of(model, layer)));
  ir::leave_float(model, layer, ir::Placement::Float, reason, detail);
}

void compute_in_int8(ir::NodeRecord& record) {
  record.placement = ir::Placement::Int8;
  record.reason = ir::Reason::None;
  if (!record.is_reported) return;
  record.decision.quantized = true;
  record.decision.reason.clear();
  record.decision.remedy.clear();
  record.decision.other_backends.clear();
}

void leave_out(ir::Model& model, ir::Node* node, ir::Reason reason, std::string_view detail) {
  ir::NodeRecord& record = ir::record_for(model, node);
  record.observed = false;
  record.lookup.qconfig.reset();
  if (record.is_reported && record.decision.quantized) record.decision.equalization.clear();
  if (!ir::stays_float(model, node)) ir::leave_float(model, node, ir::Placement::Float, reason, detail);
}

bool read_exact_values(ir::Model& model, ir::Node* node) {
  bool has_changed = false;
  for (ir::Value* operand : ir::operands(node)) {
    ir::Value* exact = before_observers(operand);
    if (exact == operand || is_quantized(model, exact->node())) continue;
    ir::replace_operand(node, operand, exact);
    has_changed = true;
  }
  return has_changed;
}

}  // namespace tsq::passes
