// An operator that no calibration sample reached has no range, and stays float.
//   linear(x) that was observed, and whose observers saw nothing   →   linear(x) without a QConfig

#include "ir/analysis.h"
#include "ir/methods.h"
#include "passes/place/layer_in_float.h"
#include "passes/place/passes.h"

namespace tsq::passes {

bool leave_unreached(ir::Model& model, const PassContext& /*context*/) {
  bool has_changed = false;
  for (ir::Node* node : ir::nodes_in_order(*model.graph)) {
    const ir::NodeRecord* record = ir::record_of(model, node);
    if (record == nullptr || record->reason != ir::Reason::NotReached || !record->observed) continue;
    const std::string method = ir::method_of(node);
    leave_out(model, node, method.empty() ? ir::Reason::NotReached : ir::Reason::MethodNotReached, method);
    has_changed = true;
  }
  return has_changed;
}

}  // namespace tsq::passes
