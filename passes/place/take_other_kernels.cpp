// A layer whose int8 kernel takes many times as long as the float one is left to the engine's kernel that
// returns float, and rounds that itself where a quantized operator reads it.
//   observer(conv(observer(x)))   does not become   quantized::conv2d(x)

#include "backends/kernels/fault_conditions.h"
#include "backends/kernels/float_output.h"
#include "passes/context/nodes.h"
#include "passes/place/passes.h"
#include "passes/place/rounding.h"

namespace tsq::passes {

bool take_other_kernels(ir::Model& model, const PassContext& context) {
  const auto has_faster_kernel = [&](const ir::Node* node) {
    return int8_layer(model, context, node) != nullptr &&
           kernels::is_slower_than_float(context.target, ir::call_of(model, node)) &&
           kernels::float_output_kernel_of(context.target, model, node) != nullptr;
  };
  return change_nodes(model, has_faster_kernel, [&](const ir::Node* node) {
    ir::record_of(model, node)->placement = ir::Placement::Int8FloatOut;
  });
}

}  // namespace tsq::passes
