// Operators whose kernels are not to be used.
//   quantize(conv(dequantize(x), dequantize(w)))   →   the same, as lowering leaves it

#include <fmt/format.h>

#include "ir/analysis.h"
#include "passes/decision_index.h"
#include "passes/lower/passes.h"

namespace tsq::passes {

void keep_reference(ir::Model& gm, const std::map<std::string, std::string>& reasons, Report& report) {
  if (reasons.empty()) return;
  const DecisionIndex decisions(report);
  for (ir::Node* node : ir::nodes_in_order(*gm.graph)) {
    const ir::NodeState* state = ir::state_of(gm, node);
    if (state == nullptr || node->outputs().empty()) continue;
    const auto reason = reasons.find(node->outputs().front()->debugName());
    if (reason == reasons.end()) continue;
    ir::NodeState kept = *state;
    kept.keeps_reference = true;
    ir::set_state(gm, node, std::move(kept));
    if (Decision* decision = decisions.of(node)) {
      decision->quantized = false;
      decision->reason = fmt::format("computed in float between dequantize and quantize: {}", reason->second);
    }
  }
}

}  // namespace tsq::passes
