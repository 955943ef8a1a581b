// A small linear layer that returns float values stays float.
//   linear(dequantize(quantize(x)))   →   linear(x), or linear(dequantize(x)) of bytes that a kernel returns

#include <algorithm>

#include "ir/analysis.h"
#include "ir/quantize_operators.h"
#include "passes/decision_index.h"
#include "passes/placement/layer_in_float.h"
#include "passes/placement/passes.h"
#include "passes/placement/small_layers.h"

namespace tsq::passes {
namespace {

bool gives_float(const ir::Node* layer) {
  return std::ranges::none_of(layer->output()->uses(),
                              [](const torch::jit::Use& use) { return use.user->kind() == ir::kQuantize; });
}

}  // namespace

void leave_small_layers(ir::Model& gm, Report& report) {
  const DecisionIndex decisions(report);
  const auto small = small_layers(gm);
  for (ir::Node* node : ir::nodes_in_order(*gm.graph)) {
    if (!small.contains(node) || !gives_float(node)) continue;
    compute_in_float(gm, node, decisions.of(node),
                     "it is faster in float, and has a small part of the network's work");
  }
  ir::eliminate_dead_code(*gm.graph);
}

}  // namespace tsq::passes
