// An operator that no calibration sample reached has no range, and stays float.
//   linear(x) that was observed, and whose observers saw nothing   →   linear(x) without a QConfig

#include "ir/methods.h"
#include "passes/context/nodes.h"
#include "passes/place/layer_in_float.h"
#include "passes/place/passes.h"

namespace tsq::passes {

bool leave_unreached(ir::Model& model, const PassContext& /*context*/) {
  const auto is_unreached = [&](const ir::Node* node) {
    const ir::NodeRecord* record = ir::record_of(model, node);
    return record != nullptr && record->reason == ir::Reason::NotReached && record->observed;
  };
  return change_nodes(model, is_unreached, [&](ir::Node* node) {
    const std::string method = ir::method_of(node);
    leave_out(model, node, method.empty() ? ir::Reason::NotReached : ir::Reason::MethodNotReached, method);
  });
}

}  // namespace tsq::passes
