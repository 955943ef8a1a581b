// Kernels that add two products of a byte by a byte in 16 bits saturate where 255 * (a + b) does not fit.
// Instead of one bit less for all activations, as FX's reduce_range has it, the scale of a channel's weights
// grows by what its largest pair needs: a proof for each channel that no input overflows.

#include "passes/weights/pair_sums.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cstdint>
#include <limits>
#include <vector>

#include "backends/kernels/packed.h"
#include "config/qscheme.h"
#include "ir/analysis.h"

namespace tsq::passes {
namespace {

constexpr int kAttempts = 8;

/// The largest of the outputs that have a scale in common: all, or, of a transposed convolution, one of each
/// group.
at::Tensor largest_of_scales(const at::Tensor& of_outputs, int64_t scales) {
  return of_outputs.reshape({-1, scales}).amax(0);
}

}  // namespace

at::Tensor largest_pair_sums(const ir::Weighted& weighted, bool is_transposed, kernels::PairSums pairs) {
  return kernels::largest_pair_sums(kernels::quantized_weight(weighted).int_repr(), weighted.groups,
                                    is_transposed, pairs);
}

void tell_of_larger_scales(ir::Model& model, const ir::Node* layer, int64_t grown, int64_t all) {
  Decision* decision = grown > 0 ? ir::decision_of(model, layer) : nullptr;
  if (decision == nullptr) return;
  decision->notes.push_back(
      fmt::format("the weights of {} of {} channels have larger scales, so that no 16-bit sum of its kernel "
                  "overflows",
                  grown, all));
}

void clip_to_codes(ir::Weighted& weighted) {
  const QParams& qparams = *weighted.weight_qparams;
  std::vector<int64_t> sizes(static_cast<std::size_t>(weighted.weight.dim()), 1);
  if (is_per_channel(qparams.qscheme)) sizes[static_cast<std::size_t>(qparams.axis)] = -1;
  const at::Tensor scale = qparams.scale.to(weighted.weight.scalar_type()).reshape(sizes);
  constexpr std::numeric_limits<int8_t> kCodes;
  constexpr double kHalf = 0.50001;  // what is rounded to the last code is no further than that
  const at::Tensor clipped =
      weighted.weight.detach().clamp(scale * (kCodes.min() - kHalf), scale * (kCodes.max() + kHalf));
  if (!at::equal(clipped, weighted.weight)) weighted.weight = clipped;
}

int64_t widen_scales(ir::Weighted& weighted, bool is_transposed, kernels::PairSums pairs,
                     int64_t largest_sum) {
  at::Tensor& scale = weighted.weight_qparams->scale;
  const at::Tensor before = scale;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const at::Tensor sums =
        largest_of_scales(largest_pair_sums(weighted, is_transposed, pairs), scale.numel());
    if (sums.max().item<double>() <= static_cast<double>(largest_sum)) break;
    const at::Tensor factor = (sums / largest_sum).clamp_min(1.0).reshape(scale.sizes());
    scale = (scale.to(at::kDouble) * factor).to(scale.scalar_type());
  }
  return scale.ne(before).sum().item<int64_t>();
}

}  // namespace tsq::passes
