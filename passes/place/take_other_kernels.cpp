// A layer whose int8 kernel takes many times as long as the float one is left to the engine's kernel that
// returns float, and rounds that itself where a quantized operator reads it.
//   quantize(conv(dequantize(x)))   does not become   quantized::conv2d(x)

#include "backends/kernels/fault_conditions.h"
#include "backends/kernels/float_output.h"
#include "ir/analysis.h"
#include "passes/placement/passes.h"

namespace tsq::passes {

void take_other_kernels(ir::Model& gm) {
  for (ir::Node* node : ir::nodes_in_order(*gm.graph)) {
    const bool is_slow = ir::is_module_call(node) && kernels::is_slower_than_float(ir::call_of(gm, node));
    if (is_slow && kernels::float_output_kernel_of(gm, node) != nullptr) ir::set_stays_float(node);
  }
}

}  // namespace tsq::passes
