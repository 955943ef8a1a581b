// The product of maps with a gate stays in float: quantized::mul goes through what it broadcasts value by
// value, and the maps are dequantized for their averages anyway.
//   observer(mul(observer(gate), observer(x)))   does not become   quantized::mul(gate, x)

#include "ir/analysis.h"
#include "passes/place/gates.h"
#include "passes/place/passes.h"

namespace tsq::passes {

bool multiply_in_float(ir::Model& model, const PassContext& /*context*/) {
  bool has_changed = false;
  for (ir::Node* node : ir::nodes_in_order(*model.graph)) {
    if (!gate_of(model, node)) continue;
    ir::leave_float(model, node, ir::Placement::Reference, ir::Reason::Broadcasts);
    has_changed = true;
  }
  return has_changed;
}

}  // namespace tsq::passes
