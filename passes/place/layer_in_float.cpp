#include "passes/placement/layer_in_float.h"

#include "ir/quantize_operators.h"

namespace tsq::passes {
namespace {

using ir::Model;
using ir::Node;
using ir::Value;

/// What a layer reads, not rounded where nothing but the layer asks for it.
Value* exact_input(const Model& gm, const Node* layer) {
  const Node* dequantize = layer->input(0)->node();
  if (dequantize->kind() != ir::kDequantize) return layer->input(0);
  const Node* quantize = dequantize->input(0)->node();
  if (quantize->kind() != ir::kQuantize) return layer->input(0);
  Value* exact = quantize->input(0);
  return ir::observed_qconfig(gm, exact->node()) == nullptr ? exact : layer->input(0);
}

}  // namespace

void report_left_float(Decision* decision, const char* reason) {
  if (decision == nullptr || !decision->quantized) return;
  decision->quantized = false;
  decision->reason = reason;
  decision->remedy.clear();
}

void compute_in_float(Model& gm, Node* layer, Decision* decision, const char* reason) {
  layer->replaceInput(0, exact_input(gm, layer));
  ir::Weighted& weighted = *ir::weighted_of(ir::call_of(gm, layer));
  weighted.weight_qparams.reset();
  weighted.input_products.reset();
  weighted.input = {};
  report_left_float(decision, reason);
}

}  // namespace tsq::passes
