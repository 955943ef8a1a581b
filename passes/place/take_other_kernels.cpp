// A layer whose int8 kernel takes many times as long as the float one is left to the engine's kernel that
// returns float, and rounds that itself where a quantized operator reads it.
//   observer(conv(observer(x)))   does not become   quantized::conv2d(x)

#include "passes/context/nodes.h"
#include "passes/place/layer_in_float.h"
#include "passes/place/passes.h"
#include "passes/place/rounding.h"

namespace tsq::passes {

bool take_other_kernels(ir::Model& model, const PassContext& context) {
  const auto has_faster_kernel = [&](const ir::Node* node) {
    return int8_layer(model, context, node) != nullptr &&
           slow_layer(model, context, node) == SlowLayer::Other;
  };
  return change_nodes(model, has_faster_kernel, [&](const ir::Node* node) {
    ir::record_of(model, node)->placement = ir::Placement::Int8FloatOut;
  });
}

}  // namespace tsq::passes
