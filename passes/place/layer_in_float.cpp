#include "passes/place/layer_in_float.h"

#include <algorithm>

#include "backends/choices/choices.h"
#include "passes/place/rounding.h"

namespace tsq::passes {
namespace {

/// What a layer reads, not rounded where nothing but the layer asks for it.
ir::Value* exact_input(const ir::Model& model, ir::Node* layer) {
  ir::Value* rounded = before_channel_observers(model, layer->input(0));
  ir::Value* before = exact(model, rounded);
  return ir::observed_qconfig(model, before->node()) == nullptr ? before : rounded;
}

}  // namespace

void compute_in_float(ir::Model& model, ir::Node* layer, ir::Reason reason, std::string_view detail) {
  layer->replaceInput(0, exact_input(model, layer));
  ir::Weighted& weighted = *ir::weighted_of(ir::call_of(model, layer));
  weighted.seen.input_products.reset();
  weighted.seen.input = {};
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

SlowLayer slow_layer(const ir::Model& model, const PassContext& context, const ir::Node* layer) {
  const auto all = kernels::engine_choices(context.target, model, layer);
  const auto returns_float = [](const kernels::Choice& choice) {
    return choice.placement == ir::Placement::Int8FloatOut && !choice.refusal;
  };
  if (std::ranges::none_of(all, &kernels::Choice::is_slow)) return SlowLayer::No;
  return std::ranges::any_of(all, returns_float) ? SlowLayer::Other : SlowLayer::Alone;
}

}  // namespace tsq::passes
