// A norm of a sample without the dimension of a batch is computed in float: its kernel takes batches only.
//   observer(instance_norm(observer(x)))   does not become   quantized::instance_norm(x)

#include "passes/context/nodes.h"
#include "passes/place/passes.h"

namespace tsq::passes {

bool normalise_in_float(ir::Model& model, const PassContext& /*context*/) {
  const auto is_of_sample = [&](const ir::Node* node) {
    const ir::NodeRecord* record = ir::record_of(model, node);
    return record != nullptr && record->reason == ir::Reason::OfSample &&
           record->placement != ir::Placement::Reference;
  };
  return change_nodes(model, is_of_sample, [&](ir::Node* node) {
    ir::leave_float(model, node, ir::Placement::Reference, ir::Reason::OfSample);
  });
}

}  // namespace tsq::passes
