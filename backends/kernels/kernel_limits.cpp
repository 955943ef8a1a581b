#include "backends/kernels/kernel_limits.h"

#include "backends/kernels/costs.h"

namespace tsq::kernels {
bool sums_pairs_in_16_bits(const Target& target, const WeightedShape& shape) {
  // Programs compute layers in float that may saturate without VNNI.
  if (target.runtime == LoweringTarget::Fused) return !has_vnni(target);
  const EngineCosts& costs = costs_of(target);
  const bool is_fbgemms =
      shape.depthwise && shape.dims >= 2 && shape.channels >= costs.fbgemm_depthwise_channels;
  return is_fbgemms || (costs.needs_vnni && !has_vnni(target));
}

bool rounds_biases(const Target& target) { return target.engine == "qnnpack"; }

}  // namespace tsq::kernels
