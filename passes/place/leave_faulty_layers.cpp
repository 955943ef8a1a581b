// A layer whose int8 kernel is at fault here is computed in float with its float weight: rounding its weight
// would only cost accuracy.
//   conv_transpose(observer(x))   →   conv_transpose(x)

#include "backends/kernels/fault_conditions.h"
#include "ir/analysis.h"
#include "match/dtype_check.h"
#include "operators/weighted.h"
#include "passes/context/nodes.h"
#include "passes/place/layer_in_float.h"
#include "passes/place/passes.h"
#include "passes/place/rounding.h"

namespace tsq::passes {
namespace {

/// Why lowering would leave a layer without a kernel, whatever it reads; null where it would not.
const kernels::KernelFault* fault_of(const Model& model, const PassContext& context, const Node* node) {
  const QConfig* qconfig = ir::observed_qconfig(model, node);
  if (!ir::is_module_call(node) || qconfig == nullptr || !match::is_static(*qconfig) ||
      int8_layer(model, context, node) == nullptr)
    return nullptr;
  const Symbol type = ir::root_of(ir::call_of(model, node)).type;
  return kernels::fault_of_layer(context.target, model, node,
                                 resolve(operators::weight_observer(type, qconfig->weight)));
}

}  // namespace

bool leave_faulty_layers(Model& model, const PassContext& context) {
  const bool has_changed = change_nodes(model, [&](Node* node) {
    const kernels::KernelFault* fault = fault_of(model, context, node);
    if (fault == nullptr) return false;
    compute_in_float(model, node, ir::Reason::KernelFault, fault->reason);
    ir::NodeRecord& record = ir::record_for(model, node);
    if (record.is_reported) record.decision.remedy = kernels::remedy_of(*fault);
    return true;
  });
  if (has_changed) ir::eliminate_dead_code(*model.graph);
  return has_changed;
}

}  // namespace tsq::passes
