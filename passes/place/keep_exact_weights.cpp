// A layer whose input is not rounded multiplies in float: rounding its weight would only cost accuracy.
//   linear(x, dequantize(quantize(w)))   →   linear(x, w)

#include "passes/placement/keep_exact_weights.h"

#include <algorithm>

#include "ir/analysis.h"
#include "ir/quantize_operators.h"
#include "match/dtype_check.h"
#include "operators/functional_weighted.h"
#include "passes/decision_index.h"
#include "passes/placement/layer_in_float.h"

namespace tsq::passes {
namespace {

using ir::Model;
using ir::Node;
using ir::Value;

constexpr const char* kExactReason = "it reads float values that nothing rounds";

bool is_static(const Model& gm, const Node* node) {
  const QConfig* qconfig = ir::observed_qconfig(gm, node);
  return qconfig != nullptr && match::is_static(*qconfig);
}

/// What the rounded weight of F.linear or F.conv* is made of; null for others, and where it is not rounded.
Value* exact_weight(const Model& gm, const Node* node) {
  const auto targets = ir::targets(gm, node);
  const bool is_layer = std::ranges::any_of(
      targets, [](const Symbol& target) { return !operators::module_of_functional(target.name).empty(); });
  if (!is_layer || node->inputs().size() < 2 || !operators::functional_weight_dtype(node)) return nullptr;
  return node->input(1)->node()->input(0)->node()->input(0);
}

}  // namespace

void keep_exact_weights(Model& gm, Report& report) {
  const DecisionIndex decisions(report);
  for (Node* node : ir::nodes_in_order(*gm.graph)) {
    if (node->inputs().empty() || !is_static(gm, node)) continue;
    if (node->input(0)->node()->kind() == ir::kDequantize) continue;
    if (ir::is_module_call(node)) {
      const ir::Weighted* weighted = ir::weighted_of(ir::call_of(gm, node));
      if (weighted == nullptr || !weighted->weight_qparams) continue;
      compute_in_float(gm, node, decisions.of(node), kExactReason);
    } else if (Value* weight = exact_weight(gm, node)) {
      node->replaceInput(1, weight);
      report_left_float(decisions.of(node), kExactReason);
    }
  }
  ir::eliminate_dead_code(*gm.graph);
}

}  // namespace tsq::passes
