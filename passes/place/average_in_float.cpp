// The average of a whole map stays in float: on bytes it would be rounded as the map is, of whose range it
// uses a small part.
//   observer(mean(observer(x)))   does not become   a mean of bytes

#include "operators/images/whole_average.h"
#include "passes/context/nodes.h"
#include "passes/place/passes.h"

namespace tsq::passes {

bool average_in_float(ir::Model& model, const PassContext& /*context*/) {
  const auto is_left_float = [&](const Node* node) {
    const ir::NodeRecord* record = ir::record_of(model, node);
    return record != nullptr && !record->lookup.qconfig && !ir::stays_float(model, node) &&
           operators::is_whole_average(model, node);
  };
  return change_nodes(model, is_left_float, [&](const Node* node) {
    ir::record_of(model, node)->placement = ir::Placement::Reference;
  });
}

}  // namespace tsq::passes
