// A layer whose int8 kernel is at fault here is computed in float with its float weight: rounding its weight
// would only cost accuracy.
//   conv_transpose(observer(x))   →   conv_transpose(x)

#include "backends/choices/offers.h"
#include "ir/analysis.h"
#include "match/dtype_check.h"
#include "passes/context/nodes.h"
#include "passes/place/layer_in_float.h"
#include "passes/place/passes.h"
#include "passes/place/rounding.h"

namespace tsq::passes {
namespace {

/// Why lowering would leave a layer without its kernel; nothing where it would not.
std::optional<kernels::Refusal> fault_of(const Model& model, const PassContext& context, const Node* node) {
  const QConfig* qconfig = ir::observed_qconfig(model, node);
  if (!ir::is_module_call(node) || qconfig == nullptr || !match::is_static(*qconfig) ||
      int8_layer(model, context, node) == nullptr)
    return std::nullopt;
  auto refusal = kernels::weighted_offer(context.target, model, node, /*post=*/nullptr).refusal;
  return refusal && refusal->reason == ir::Reason::KernelFault ? refusal : std::nullopt;
}

}  // namespace

bool leave_faulty_layers(Model& model, const PassContext& context) {
  const bool has_changed = change_nodes(model, [&](Node* node) {
    const auto fault = fault_of(model, context, node);
    if (!fault) return false;
    compute_in_float(model, node, fault->reason, fault->why);
    ir::NodeRecord& record = ir::record_for(model, node);
    if (record.is_reported) record.decision.remedy = fault->remedy;
    return true;
  });
  if (has_changed) ir::eliminate_dead_code(*model.graph);
  return has_changed;
}

}  // namespace tsq::passes
