// A layer whose int8 kernel takes many times as long as the float one stays float, unless the engine has
// another int8 kernel for it, which take_other_kernels asks for.
//   conv(dequantize(quantize(x)))   →   conv(x), or conv(dequantize(x)) of bytes that a kernel returns

#include "backends/kernels/fault_conditions.h"
#include "backends/kernels/float_output.h"
#include "ir/analysis.h"
#include "passes/decision_index.h"
#include "passes/placement/layer_in_float.h"
#include "passes/placement/passes.h"

namespace tsq::passes {

void leave_slow_layers(ir::Model& gm, Report& report) {
  const DecisionIndex decisions(report);
  for (ir::Node* node : ir::nodes_in_order(*gm.graph)) {
    if (!ir::is_module_call(node)) continue;
    const ir::ModuleCall& call = ir::call_of(gm, node);
    if (!kernels::is_slower_than_float(call) || !ir::weighted_of(call)->weight_qparams) continue;
    if (kernels::float_output_kernel_of(gm, node) != nullptr) continue;
    compute_in_float(gm, node, decisions.of(node), "the engine's kernel for it is slower than the float one");
  }
  ir::eliminate_dead_code(*gm.graph);
}

}  // namespace tsq::passes
