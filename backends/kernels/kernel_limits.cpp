#include "backends/kernels/kernel_limits.h"

#include "backends/kernels/costs.h"

namespace tsq::kernels {

PairSums pair_sums(const Target& target, const WeightedShape& shape) {
  // Programs compute layers in float that may saturate without VNNI.
  if (target.runtime == LoweringTarget::Fused) return has_vnni(target) ? PairSums::None : PairSums::Any;
  const EngineCosts& costs = costs_of(target);
  if (shape.depthwise && shape.dims >= 2 && shape.channels >= costs.fbgemm_depthwise_channels)
    return PairSums::Neighbours;
  if (!costs.needs_vnni || has_vnni(target)) return PairSums::None;
  // oneDNN has another order for products of few rows, and for transposed convolutions.
  const bool is_onednns = target.engine == "onednn" && (shape.dims == 0 || shape.transposed);
  return is_onednns ? PairSums::Any : PairSums::Neighbours;
}

bool rounds_biases(const Target& target) { return target.engine == "qnnpack"; }

}  // namespace tsq::kernels
