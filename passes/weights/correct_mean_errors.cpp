// Bias correction with what rounding was seen to add to each layer's sums, where the samples are known.

#include "ir/analysis.h"
#include "passes/numerics/layer_bias.h"
#include "passes/numerics/passes.h"

namespace tsq::passes {

void correct_mean_errors(ir::Model& gm, const MeanErrors& errors) {
  for (const ir::Node* node : ir::nodes_in_order(*gm.graph)) {
    if (!ir::is_module_call(node)) continue;
    ir::Weighted* weighted = ir::weighted_of(ir::call_of(gm, node));
    const auto error = errors.find(node->output()->debugName());
    if (weighted != nullptr && weighted->weight_qparams && error != errors.end())
      take_off_bias(*weighted, error->second);
  }
}

}  // namespace tsq::passes
