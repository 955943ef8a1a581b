// Operators in int8 that every kernel of the engine refuses compute in float between roundings: the plan says
// what lowering can make.
//   conv(x) of weights that the engine does not pack   →   the same, placed as Reference

#include "backends/choices/choices.h"
#include "passes/context/nodes.h"
#include "passes/place/passes.h"
#include "passes/place/refusals.h"

namespace tsq::passes {

bool leave_refused(Model& model, const PassContext& context) {
  Refusals refusals(model, context);
  return change_nodes(model, [&](Node* node) {
    const auto refusal = refusals.of(node);
    if (!refusal) return false;
    ir::leave_float(model, node, ir::Placement::Reference, refusal->reason, refusal->why);
    Decision* decision = ir::decision_of(model, node);
    if (decision != nullptr && !refusal->remedy.empty()) decision->remedy = refusal->remedy;
    return true;
  });
}

}  // namespace tsq::passes
