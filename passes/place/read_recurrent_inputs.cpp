// The range that a recurrent kernel finds of its input, step by step, is that of the largest value. What is
// much smaller is lost, and the states of the layer go on without it.

#include "passes/lower/read_recurrent_inputs.h"

#include "ir/analysis.h"
#include "passes/decision_index.h"
#include "torchscript/recurrent.h"

namespace tsq::passes {

void read_recurrent_inputs(ir::Model& gm, Report& report) {
  const DecisionIndex decisions(report);
  for (const ir::Node* node : ir::nodes_in_order(*gm.graph)) {
    if (!ir::is_module_call(node)) continue;
    ir::ModuleCall& call = ir::call_of(gm, node);
    if (call.recurrent_qparams.empty() || call.recurrent_qparams.front().dtype != c10::ScalarType::QInt8)
      continue;
    const std::size_t first = torchscript::weights_of_first_layer(call);
    if (first == 0 || first >= call.recurrent_qparams.size()) continue;
    for (std::size_t i = 0; i < first; ++i) call.recurrent_qparams[i] = {.dtype = c10::ScalarType::Float};
    if (Decision* decision = decisions.of(node))
      decision->notes.emplace_back("its first layer stays float, because it reads values of any size");
  }
}

}  // namespace tsq::passes
