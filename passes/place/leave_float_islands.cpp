// Operators around which nothing is quantized (find_islands) stay float. A plan may say otherwise.
//   sqrt(x) → add → sqrt   →   sqrt(x) → add → sqrt, placed in float

#include "passes/context/nodes.h"
#include "passes/place/passes.h"

namespace tsq::passes {

bool leave_float_islands(Model& model, const PassContext& /*context*/) {
  return change_nodes(model, [&](const Node* node) {
    ir::NodeRecord* record = ir::record_of(model, node);
    const bool is_island = record != nullptr && record->unobserved_qconfig.has_value() &&
                           record->placement == ir::Placement::Undecided;
    if (is_island) record->placement = ir::Placement::Float;
    return is_island;
  });
}

}  // namespace tsq::passes
