// Operators whose kernels are not to be used.
//   quantize(conv(dequantize(x), dequantize(w)))   →   the same, as lowering leaves it

#include "ir/analysis.h"
#include "passes/lower/kernel_lowering.h"
#include "passes/lower/passes.h"

namespace tsq::passes {

bool keep_reference(ir::Model& model, const PassContext& context) {
  const auto& reasons = context.lowering.kept_reference;
  if (reasons.empty()) return false;
  bool has_changed = false;
  for (const ir::Node* node : ir::nodes_in_order(*model.graph)) {
    const Decision* decision = ir::decision_of(model, node);
    const auto reason = decision == nullptr ? reasons.end() : reasons.find(decision->node);
    // What writes into memory stays what it is anyway.
    if (reason == reasons.end() || ir::placement_of(model, node) == ir::Placement::Written) continue;
    keep_between_roundings(model, node, ir::Reason::KeptReference, reason->second);
    has_changed = true;
  }
  return has_changed;
}

}  // namespace tsq::passes
