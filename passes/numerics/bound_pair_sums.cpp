// Kernels that add two products of a byte by a byte in 16 bits saturate where 255 * (a + b) does not fit.
// Instead of one bit less for all activations, as FX's reduce_range has it, the scale of a channel's weights
// grows by what its largest pair needs: a proof for each channel that no input overflows.

#include <ATen/ATen.h>

#include <algorithm>

#include "backends/kernels/fault_conditions.h"
#include "backends/kernels/packed.h"
#include "backends/kernels/target_cpu.h"
#include "operators/weighted.h"
#include "passes/numerics/passes.h"

namespace tsq::passes {
namespace {

/// The largest sum of two codes that 255 times fits into 16 bits: 32767 / 255.
constexpr double kLargestSum = 128;
constexpr int kAttempts = 8;

/// Of each output channel, the largest sum of two codes of one sign that a kernel may add. Depthwise kernels
/// add neighbouring taps; of others the order is theirs, and any two weights may meet.
at::Tensor largest_pair_sums(const at::Tensor& codes, bool depthwise) {
  const at::Tensor rows = codes.to(at::kDouble).flatten(1);
  const auto sums = [&](const at::Tensor& of_one_sign) {
    if (depthwise) {
      const at::Tensor even = at::constant_pad_nd(of_one_sign, {0, of_one_sign.size(1) % 2});
      return even.reshape({even.size(0), -1, 2}).sum(2).amax(1);
    }
    const int64_t count = std::min<int64_t>(2, of_one_sign.size(1));
    return std::get<0>(of_one_sign.topk(count, 1)).sum(1);
  };
  return at::maximum(sums(rows.clamp_min(0)), sums((-rows).clamp_min(0)));
}

bool is_symmetric_per_channel(const QParams& qparams) {
  return qparams.dtype == c10::ScalarType::QInt8 && qparams.qscheme == c10::QScheme::PER_CHANNEL_AFFINE &&
         qparams.axis == 0 && !qparams.zero_point.any().item<bool>();
}

void widen_scales(ir::Weighted& weighted, bool depthwise) {
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const at::Tensor sums = largest_pair_sums(kernels::quantized_weight(weighted).int_repr(), depthwise);
    if (sums.max().item<double>() <= kLargestSum) return;
    const at::Tensor factor = (sums / kLargestSum).clamp_min(1.0);
    weighted.weight_qparams->scale = (weighted.weight_qparams->scale.to(at::kDouble) * factor)
                                         .to(weighted.weight_qparams->scale.scalar_type());
  }
}

}  // namespace

void bound_pair_sums(ir::GraphModule& gm, TargetCpu cpu) {
  const std::string engine = kernels::current_engine();
  const bool vnni = kernels::has_vnni(cpu);
  for (ir::ModuleCall& call : gm.calls) {
    ir::Weighted* weighted = ir::weighted_of(call);
    if (weighted == nullptr || !weighted->weight_qparams || weighted->weight.numel() == 0 ||
        !is_symmetric_per_channel(*weighted->weight_qparams))
      continue;
    const kernels::WeightedShape shape = kernels::weighted_shape(*weighted);
    if (kernels::sums_pairs_in_16_bits(engine, shape, vnni)) widen_scales(*weighted, shape.depthwise && vnni);
  }
}

}  // namespace tsq::passes
