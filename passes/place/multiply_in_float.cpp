// The product of maps with a gate stays in float: quantized::mul goes through what it broadcasts value by
// value, and the maps are dequantized for their averages anyway.
//   observer(mul(observer(gate), observer(x)))   does not become   quantized::mul(gate, x)

#include "passes/context/nodes.h"
#include "passes/place/gates.h"
#include "passes/place/passes.h"

namespace tsq::passes {

bool multiply_in_float(ir::Model& model, const PassContext& /*context*/) {
  return change_nodes(
      model, [&](ir::Node* node) { return rounded_gate_of(model, node).has_value(); },
      [&](ir::Node* node) {
        ir::leave_float(model, node, ir::Placement::Reference, ir::Reason::Broadcasts);
      });
}

}  // namespace tsq::passes
