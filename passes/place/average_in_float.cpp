// The average of a whole map stays in float: on bytes it would be rounded as the map is, of whose range it
// uses a small part.
//   quantize(mean(dequantize(x)))   does not become   mean(x)

#include "ir/analysis.h"
#include "operators/whole_average.h"
#include "passes/placement/passes.h"

namespace tsq::passes {

void average_in_float(ir::Model& gm) {
  for (ir::Node* node : ir::nodes_in_order(*gm.graph)) {
    const ir::NodeState* state = ir::state_of(gm, node);
    const bool is_left_float = state != nullptr && !state->qconfig;
    if (is_left_float && operators::is_whole_average(gm, node)) ir::set_stays_float(node);
  }
}

}  // namespace tsq::passes
