// Bias correction with what rounding was seen to add to each layer's sums, where the samples are known.

#include <ATen/ATen.h>

#include "passes/passes.h"

namespace tsq::passes {

void correct_mean_errors(ir::GraphModule& gm, const MeanErrors& errors) {
  for (const ir::Node* node : ir::nodes_in_order(*gm.graph)) {
    ir::Weighted* weighted = ir::is_module_call(node) ? ir::weighted_of(ir::call_of(gm, node)) : nullptr;
    const auto found = errors.find(node->outputs().empty() ? "" : node->outputs().front()->debugName());
    if (weighted == nullptr || !weighted->weight_qparams || found == errors.end()) continue;
    const at::Tensor bias = weighted->bias.defined()
                                ? weighted->bias.detach()
                                : at::zeros({found->second.size(0)}, weighted->weight.options());
    weighted->bias = (bias.to(at::kDouble) - found->second).to(bias.scalar_type());
  }
}

}  // namespace tsq::passes
