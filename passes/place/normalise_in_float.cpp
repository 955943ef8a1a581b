// A norm of a sample without the dimension of a batch is computed in float: its kernel takes batches only.
//   observer(instance_norm(observer(x)))   does not become   quantized::instance_norm(x)

#include "ir/analysis.h"
#include "passes/place/passes.h"

namespace tsq::passes {

bool normalise_in_float(ir::Model& model, const PassContext& /*context*/) {
  bool has_changed = false;
  for (ir::Node* node : ir::nodes_in_order(*model.graph)) {
    const ir::NodeRecord* record = ir::record_of(model, node);
    if (record == nullptr || record->reason != ir::Reason::OfSample ||
        record->placement == ir::Placement::Reference)
      continue;
    ir::leave_float(model, node, ir::Placement::Reference, ir::Reason::OfSample);
    has_changed = true;
  }
  return has_changed;
}

}  // namespace tsq::passes
