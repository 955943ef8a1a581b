// Bias correction with what rounding was seen to add to each layer's sums, where the samples are known.

#include <ATen/ATen.h>

#include "passes/passes.h"

namespace tsq::passes {
namespace {

/// The calls that share a weight and bias, which stay one layer, and what their sums are too large by.
struct Corrected {
  std::vector<ir::Weighted*> calls{};
  at::Tensor excess{};
};

}  // namespace

void correct_mean_errors(ir::GraphModule& gm, const MeanErrors& errors) {
  std::map<std::pair<const void*, const void*>, Corrected> layers;
  for (const ir::Node* node : ir::nodes_in_order(*gm.graph)) {
    ir::Weighted* weighted = ir::is_module_call(node) ? ir::weighted_of(ir::call_of(gm, node)) : nullptr;
    if (weighted == nullptr || !weighted->weight_qparams) continue;
    const auto found = errors.find(node->output()->debugName());
    const void* bias = weighted->bias.defined() ? weighted->bias.const_data_ptr() : nullptr;
    Corrected& layer = layers[{weighted->weight.const_data_ptr(), bias}];
    layer.calls.push_back(weighted);
    if (found != errors.end())
      layer.excess = layer.excess.defined() ? layer.excess + found->second : found->second;
  }
  for (auto& [parameters, layer] : layers) {
    if (!layer.excess.defined()) continue;
    const ir::Weighted& first = *layer.calls.front();
    const at::Tensor excess = layer.excess / static_cast<double>(layer.calls.size());
    const at::Tensor bias =
        first.bias.defined() ? first.bias.detach() : at::zeros({excess.size(0)}, first.weight.options());
    const at::Tensor corrected = (bias.to(at::kDouble) - excess).to(bias.scalar_type());
    for (ir::Weighted* call : layer.calls) call->bias = corrected;
  }
}

}  // namespace tsq::passes
