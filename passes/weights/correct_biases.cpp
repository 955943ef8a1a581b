// Rounding the weights shifts the mean output of each channel by (rounded - exact) * mean input. The bias
// takes the shift back. Source: Nagel et al., Data-Free Quantization Through Weight Equalization and Bias
// Correction, 2019, section 4.2, with means that are observed.

#include <ATen/ATen.h>

#include "backends/kernels/packed.h"
#include "passes/weights/layer_bias.h"
#include "passes/weights/passes.h"

namespace tsq::passes {
namespace {

/// Sum over taps and input channels of (rounded - exact weight) * mean; empty where the mean is of other
/// channels.
std::optional<at::Tensor> mean_shift(const ir::Weighted& weighted) {
  const at::Tensor exact = weighted.weight.detach();
  const int64_t outputs = exact.size(0);
  const int64_t inputs = exact.size(1);
  if (weighted.seen.input.mean.numel() != inputs * weighted.groups || outputs % weighted.groups != 0)
    return std::nullopt;
  const at::Tensor error = (kernels::quantized_weight(weighted).dequantize() - exact).to(at::kDouble);
  const at::Tensor by_input = error.reshape({outputs, inputs, -1}).sum(2);
  const at::Tensor means = weighted.seen.input.mean.reshape({weighted.groups, 1, inputs})
                               .expand({weighted.groups, outputs / weighted.groups, inputs})
                               .reshape({outputs, inputs});
  return (by_input * means).sum(1);
}

}  // namespace

bool correct_biases(ir::Model& model, const PassContext&) {
  bool has_changed = false;
  for (ir::ModuleCall& call : model.calls) {
    ir::Weighted* weighted = ir::weighted_of(call);
    if (weighted == nullptr || !weighted->weight_qparams || !weighted->seen.input.mean.defined() ||
        weighted->weight_qparams->dtype != c10::ScalarType::QInt8)
      continue;
    const auto shift = mean_shift(*weighted);
    if (!shift || !at::isfinite(*shift).all().item<bool>()) continue;
    take_off_bias(*weighted, *shift);
    weighted->seen.input = {.sizes = weighted->seen.input.sizes};  // the means are of the bias as it was
    has_changed = true;
  }
  return has_changed;
}

}  // namespace tsq::passes
