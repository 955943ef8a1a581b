// A layer whose int8 kernel takes many times as long as the float one is left to the engine's kernel that
// returns float, and rounds that itself where a quantized operator reads it.
//   observer(conv(observer(x)))   does not become   quantized::conv2d(x)

#include "backends/kernels/fault_conditions.h"
#include "backends/kernels/float_output.h"
#include "ir/analysis.h"
#include "passes/place/passes.h"
#include "passes/place/rounding.h"

namespace tsq::passes {

bool take_other_kernels(ir::Model& model, const PassContext& context) {
  bool has_changed = false;
  for (const ir::Node* node : ir::nodes_in_order(*model.graph)) {
    if (int8_layer(model, context, node) == nullptr) continue;
    if (!kernels::is_slower_than_float(context.target, ir::call_of(model, node)) ||
        kernels::float_output_kernel_of(context.target, model, node) == nullptr)
      continue;
    ir::record_of(model, node)->placement = ir::Placement::Int8FloatOut;
    has_changed = true;
  }
  return has_changed;
}

}  // namespace tsq::passes
