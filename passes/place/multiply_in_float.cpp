// The product of maps with a gate stays in float: quantized::mul goes through what it broadcasts value by
// value, and the maps are dequantized for their averages anyway.
//   quantize(mul(dequantize(gate), dequantize(x)))   does not become   quantized::mul(gate, x)

#include "ir/analysis.h"
#include "passes/decision_index.h"
#include "passes/placement/gates.h"
#include "passes/placement/layer_in_float.h"
#include "passes/placement/passes.h"

namespace tsq::passes {

void multiply_in_float(ir::Model& gm, Report& report) {
  const DecisionIndex decisions(report);
  for (ir::Node* node : ir::nodes_in_order(*gm.graph)) {
    if (!gate_of(gm, node)) continue;
    ir::set_stays_float(node);
    report_left_float(
        decisions.of(node),
        "computed in float between dequantize and quantize: int8 kernels are slow where they broadcast");
  }
}

}  // namespace tsq::passes
