#include "backends/kernels/weight_codes.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "config/qscheme.h"

namespace tsq::kernels {
namespace {

/// The codes as [outputs, inputs of a group, taps].
at::Tensor codes_by_output(const at::Tensor& codes, int64_t groups, bool is_transposed) {
  if (!is_transposed) return codes.dim() > 2 ? codes.flatten(2) : codes.flatten(1).unsqueeze(2);
  return codes
      .reshape({groups, codes.size(0) / groups, codes.size(1), -1})  // [inputs, outputs / groups, …]
      .transpose(1, 2)
      .flatten(0, 1);
}

at::Tensor sums_of_neighbours(const at::Tensor& rows) {
  const at::Tensor even = at::constant_pad_nd(rows, {0, rows.size(-1) % 2});
  return even.unflatten(-1, {-1, 2}).sum(-1).flatten(1).amax(1);
}

/// Channels of a tap are neighbours, and the last one of a tap may be that of the next tap's first.
at::Tensor largest_sums_of_neighbours(const at::Tensor& codes) {
  const at::Tensor taps = codes.transpose(1, 2);
  return at::maximum(sums_of_neighbours(taps.flatten(1)), sums_of_neighbours(taps));
}

at::Tensor largest_sums_of_any(const at::Tensor& codes) {
  const at::Tensor rows = codes.flatten(1);
  return std::get<0>(rows.topk(std::min<int64_t>(2, rows.size(1)), 1)).sum(1);
}

}  // namespace

bool has_symmetric_codes(const ir::Weighted& weighted, int64_t output_axis) {
  const auto& qparams = weighted.weight_qparams;
  if (!qparams || qparams->dtype != c10::ScalarType::QInt8 || weighted.group_size != 0) return false;
  if (qparams->zero_point.ne(0).any().item<bool>()) return false;
  return !is_per_channel(qparams->qscheme) || qparams->axis == output_axis;
}

at::Tensor largest_pair_sums(const at::Tensor& codes, int64_t groups, bool is_transposed, PairSums pairs) {
  const at::Tensor exact = codes_by_output(codes, groups, is_transposed).to(at::kDouble);
  const auto largest = [&](const at::Tensor& of_one_sign) {
    return pairs == PairSums::Neighbours ? largest_sums_of_neighbours(of_one_sign)
                                         : largest_sums_of_any(of_one_sign);
  };
  return at::maximum(largest(exact.clamp_min(0)), largest((-exact).clamp_min(0)));
}

}  // namespace tsq::kernels
