// Roundings that no kernel reads as bytes cost accuracy and time, and save nothing.
//   linear(dequantize(quantize(x)))   →   linear(x), where quantize(x) has no other reader

#include <algorithm>
#include <cmath>

#include "ir/analysis.h"
#include "ir/edit.h"
#include "ir/quantize_operators.h"
#include "ir/reasons.h"
#include "operators/clamp_bounds.h"
#include "passes/context/nodes.h"
#include "passes/pack/passes.h"

namespace tsq::passes {
namespace {

const c10::Symbol kQuantizeDynamic = c10::Symbol::fromQualString("aten::quantize_per_tensor_dynamic");

bool is_dequantize(const Node* node) { return node->kind() == ir::kDequantize; }

bool rounds(const Node* node) {
  return node->kind() == ir::kQuantize || node->kind() == ir::kQuantizePerChannel ||
         node->kind() == kQuantizeDynamic;
}

/// Whether the caller of lower wants the operator as the reference model has it.
bool is_kept(const Model& model, const Node* node) {
  const ir::NodeRecord* record = ir::record_of(model, node);
  return record != nullptr && record->reason == ir::Reason::KeptReference;
}

bool is_unread(const Model& model, const Node* node) {
  if (!rounds(node) || is_kept(model, node->input(0)->node())) return false;
  const auto readers = ir::users(node->output());
  return !readers.empty() && std::ranges::all_of(readers, [&](const Node* reader) {
    return is_dequantize(reader) &&
           std::ranges::none_of(ir::users(reader->output()),
                                [&](const Node* operation) { return is_kept(model, operation); });
  });
}

/// What a quantize node reads, clamped where its range stood for that.
Value* exact(Model& model, Node* quantize) {
  const auto bounds = operators::cut_off(quantize);
  if (!bounds) return quantize->input(0);
  const ir::Rewriter in_front(model, quantize);
  const auto bound = [&](double value) {
    return in_front.constant(std::isfinite(value) ? c10::IValue(value) : c10::IValue());
  };
  return in_front.op("aten::clamp", {quantize->input(0), bound(bounds->lowest), bound(bounds->highest)});
}

/// The rounding is dead code then.
void read_exact(Model& model, Node* quantize) {
  Value* value = exact(model, quantize);
  for (Node* dequantize : ir::users(quantize->output())) dequantize->output()->replaceAllUsesWith(value);
}

/// Whether an operator that became no kernel still reads or makes what is rounded.
bool is_between_roundings(const Node* node) {
  const auto operands = ir::operands(node);
  return std::ranges::any_of(operands, [](const Value* each) { return is_dequantize(each->node()); }) ||
         std::ranges::any_of(node->outputs(), [](const Value* output) {
           return std::ranges::any_of(ir::users(output), rounds);
         });
}

}  // namespace

bool drop_unread_roundings(Model& model, const PassContext& /*context*/) {
  const bool has_changed = change_nodes(
      model, [&](const Node* node) { return is_unread(model, node); },
      [&](Node* node) { read_exact(model, node); });
  if (!has_changed) return false;
  ir::eliminate_dead_code(*model.graph);
  for (const Node* node : ir::nodes_in_order(*model.graph)) {
    ir::NodeRecord* record = ir::record_of(model, node);
    if (record == nullptr || record->placement != ir::Placement::Reference || is_between_roundings(node))
      continue;
    record->placement = ir::Placement::Float;
    record->decision.reason = ir::without_roundings(record->decision.reason);
  }
  return true;
}

}  // namespace tsq::passes
