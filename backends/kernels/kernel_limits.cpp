#include "backends/kernels/kernel_limits.h"

#include "backends/kernels/costs.h"

namespace tsq::kernels {
namespace {

/// oneDNN has another order for products of few rows, and for transposed convolutions.
PairSums pair_sums_of_onednn(const WeightedShape& shape) {
  return shape.dims == 0 || shape.transposed ? PairSums::Any : PairSums::Neighbours;
}

}  // namespace

PairSums pair_sums(const Target& target, const WeightedShape& shape) {
  if (target.runtime == LoweringTarget::Fused) {
    // Kernels for depthwise convolutions add nothing in 16 bits.
    const bool adds_pairs = !has_vnni(target) && (!shape.depthwise || shape.transposed);
    return adds_pairs ? pair_sums_of_onednn(shape) : PairSums::None;
  }
  const EngineCosts& costs = costs_of(target);
  if (shape.depthwise && shape.dims >= 2 && shape.channels >= costs.fbgemm_depthwise_channels)
    return PairSums::Neighbours;
  if (!costs.needs_vnni || has_vnni(target)) return PairSums::None;
  return target.engine == "onednn" ? pair_sums_of_onednn(shape) : PairSums::Neighbours;
}

bool rounds_biases(const Target& target) { return target.engine == "qnnpack"; }

}  // namespace tsq::kernels
