// A layer whose int8 kernel takes many times as long as the float one stays float, unless the engine has
// another int8 kernel for it, which take_other_kernels asks for.
//   conv(observer(x))   →   conv(x), or conv(observer(x)) of bytes that a kernel returns

#include "ir/analysis.h"
#include "passes/context/nodes.h"
#include "passes/place/layer_in_float.h"
#include "passes/place/passes.h"
#include "passes/place/rounding.h"

namespace tsq::passes {

bool leave_slow_layers(ir::Model& model, const PassContext& context) {
  const auto is_slow = [&](const ir::Node* node) {
    return int8_layer(model, context, node) != nullptr &&
           slow_layer(model, context, node) == SlowLayer::Alone;
  };
  const bool has_changed = change_nodes(
      model, is_slow, [&](ir::Node* node) { compute_in_float(model, node, ir::Reason::SlowKernel); });
  ir::eliminate_dead_code(*model.graph);
  return has_changed;
}

}  // namespace tsq::passes
