#include "trial/layer_sums.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace tsq::detail {
namespace {

/// The numbers that a quantized tensor can stand for, half a step wider: these round to its codes.
std::pair<double, double> reach_of(const at::Tensor& quantized, int64_t lowest, int64_t highest) {
  const double scale = quantized.q_scale();
  const auto zero_point = static_cast<double>(quantized.q_zero_point());
  return {(static_cast<double>(lowest) - zero_point - 0.5) * scale,
          (static_cast<double>(highest) - zero_point + 0.5) * scale};
}

}  // namespace

void add_difference(ErrorSums& sums, const at::Tensor& wanted, const at::Tensor& got) {
  const at::Tensor counts = at::isfinite(wanted);
  const at::Tensor exact = wanted.to(at::kDouble).masked_select(counts);
  sums.power += exact.square().sum().item<double>();
  sums.error += (got.to(at::kDouble).masked_select(counts) - exact).square().sum().item<double>();
}

bool fits(const at::Tensor& a, const at::Tensor& b) {
  if (a.sizes() == b.sizes()) return true;
  const auto without_ones = [](const at::Tensor& tensor) {
    std::vector<int64_t> sizes = tensor.sizes().vec();
    std::erase(sizes, 1);
    return sizes;
  };
  const bool is_matrix_of =
      a.dim() > 0 && b.dim() > 0 && (a.dim() == 2 || b.dim() == 2) && a.size(-1) == b.size(-1);
  return a.numel() == b.numel() && (is_matrix_of || without_ones(a) == without_ones(b));
}

at::Tensor InputFactors::applied_to(const at::Tensor& input) const {
  const int64_t axis = is_convolution ? 1 : input.dim() - 1;
  if (!of_channel.defined() || input.dim() < 2 || input.size(axis) != of_channel.numel()) return input;
  std::vector<int64_t> sizes(static_cast<std::size_t>(input.dim()), 1);
  sizes[static_cast<std::size_t>(axis)] = -1;
  return (input * of_channel.reshape(sizes)).to(input.scalar_type());
}

void add_codes(LayerSums& sums, const at::Tensor& quantized, const at::Tensor& wanted) {
  if (!quantized.is_quantized() || quantized.qscheme() != at::kPerTensorAffine) return;
  const at::Tensor codes = quantized.int_repr();
  if (codes.element_size() != 1) return;
  constexpr int64_t kCodes = 256;
  const int64_t lowest = codes.scalar_type() == at::kChar ? -kCodes / 2 : 0;
  const auto [low, high] = reach_of(quantized, lowest, lowest + kCodes - 1);
  sums.reach = {low, high};
  sums.outside += (wanted.lt(low) | wanted.gt(high)).sum().item<int64_t>();
  const at::Tensor counts = at::bincount((codes.to(at::kLong) - lowest).flatten(), {}, kCodes).gt(0);
  sums.used = sums.used.defined() ? sums.used | counts : counts;
  sums.facts.codes = kCodes;
}

void add_outliers(LayerSums& sums, const at::Tensor& wanted) {
  const at::Tensor sizes = wanted.abs().masked_select(at::isfinite(wanted));
  if (sizes.numel() == 0) return;
  sums.largest = std::max(sums.largest, sizes.max().item<double>());
  const auto rank =
      std::max<int64_t>(1, static_cast<int64_t>(std::ceil(0.99 * static_cast<double>(sizes.numel()))));
  sums.usual = std::max(sums.usual, std::get<0>(sizes.kthvalue(rank)).item<double>());
}

}  // namespace tsq::detail
