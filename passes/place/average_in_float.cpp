// The average of a whole map stays in float: on bytes it would be rounded as the map is, of whose range it
// uses a small part.
//   observer(mean(observer(x)))   does not become   a mean of bytes

#include "ir/analysis.h"
#include "operators/whole_average.h"
#include "passes/place/passes.h"

namespace tsq::passes {

bool average_in_float(ir::Model& model, const PassContext& /*context*/) {
  bool has_changed = false;
  for (const ir::Node* node : ir::nodes_in_order(*model.graph)) {
    ir::NodeRecord* record = ir::record_of(model, node);
    const bool is_left_float = record != nullptr && !record->lookup.qconfig && !ir::stays_float(model, node);
    if (!is_left_float || !operators::is_whole_average(model, node)) continue;
    record->placement = ir::Placement::Reference;
    has_changed = true;
  }
  return has_changed;
}

}  // namespace tsq::passes
