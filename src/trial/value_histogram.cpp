#include "trial/value_histogram.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

namespace tsq::detail {
namespace {

constexpr int64_t kBins = 2048;
constexpr std::size_t kShown = 64;

}  // namespace

void ValueCounts::widen() {
  const at::Tensor pairs = counts_.view({kBins / 2, 2}).sum(1);
  counts_ = at::constant_pad_nd(pairs, {kBins / 4, kBins / 4});
  reach_ *= 2;
}

void ValueCounts::add(const at::Tensor& values) {
  const at::Tensor all = values.to(at::kFloat).flatten();
  const at::Tensor finite = all.masked_select(all.isfinite());
  if (finite.numel() == 0) return;
  const double low = finite.min().item<double>();
  const double high = finite.max().item<double>();
  const double largest = std::max(std::abs(low), std::abs(high));
  if (!counts_.defined()) {
    counts_ = at::zeros({kBins}, at::kDouble);
    reach_ = largest > 0 ? largest : 1;
    low_ = low;
    high_ = high;
  }
  while (reach_ < largest) widen();
  low_ = std::min(low_, low);
  high_ = std::max(high_, high);
  counts_ += at::histc(finite, kBins, -reach_, reach_);
}

std::optional<ValueHistogram> ValueCounts::histogram() const {
  if (!counts_.defined()) return std::nullopt;
  ValueHistogram result{.low = low_, .high = high_, .counts = std::vector<int64_t>(kShown)};
  const double width = (high_ - low_) / kShown;
  std::vector<double> shown(kShown);
  const double* counts = counts_.const_data_ptr<double>();
  for (int64_t i = 0; i < kBins; ++i) {
    if (counts[i] == 0) continue;
    const double center = reach_ * (2 * (static_cast<double>(i) + 0.5) / kBins - 1);
    const double place = width > 0 ? (center - low_) / width : 0;
    shown[static_cast<std::size_t>(std::clamp(place, 0.0, kShown - 1.0))] += counts[i];
  }
  std::ranges::transform(shown, result.counts.begin(), [](double count) { return std::llround(count); });
  return result;
}

}  // namespace tsq::detail
