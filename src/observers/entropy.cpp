#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "config/names/observer_classes.h"
#include "observers/histogram_ranges.h"
#include "observers/histogram_state.h"
#include "observers/observer_kind.h"
#include "observers/uniform_qparams.h"

namespace tsq {
namespace {

/// Thresholds that are tried.
constexpr std::size_t kThresholds = 256;
/// What all bins that the steps leave empty hold of the whole: the last one may have nothing but what was
/// above.
constexpr double kEmpty = 1e-4;

/// The counts of absolute values, in bins as wide as the histogram's where that many are enough.
Bins absolute_values(const HistogramView& view) {
  const Bins bins = bins_of(view);
  const double largest = std::max(std::abs(view.min_val), std::abs(view.max_val));
  const auto most = static_cast<double>(bins.counts.size());
  const double count = std::clamp(std::round(largest / bins.width), 1.0, most);
  Bins folded{.counts = std::vector<double>(static_cast<std::size_t>(count)), .width = largest / count};
  for (std::size_t i = 0; i < bins.counts.size(); ++i) {
    const double value = std::abs(view.min_val + (static_cast<double>(i) + 0.5) * bins.width);
    const auto index = static_cast<std::size_t>(value / folded.width);
    folded.counts[std::min(index, folded.counts.size() - 1)] += bins.counts[i];
  }
  // Zeros are exact whatever the range.
  if (folded.counts.size() > 1) folded.counts[0] = folded.counts[1];
  return folded;
}

/// The divergence of the counts below a threshold, to whose last bin `above` comes, from what is left of them
/// in `levels` steps. Infinite where nothing is left.
double divergence(std::span<const double> below, double above, std::size_t levels) {
  double total = above;
  double kept = 0;
  for (const double count : below) kept += count;
  total += kept;
  if (kept == 0) return std::numeric_limits<double>::infinity();
  double sum = 0;
  for (std::size_t level = 0; level < levels; ++level) {
    const std::size_t first = level * below.size() / levels;
    const std::size_t end = (level + 1) * below.size() / levels;
    double in_level = 0;
    double filled = 0;
    for (std::size_t i = first; i < end; ++i) {
      in_level += below[i];
      filled += below[i] > 0 ? 1 : 0;
    }
    for (std::size_t i = first; i < end; ++i) {
      const double p = (below[i] + (i + 1 == below.size() ? above : 0)) / total;
      if (p == 0) continue;
      const double q = below[i] == 0 ? kEmpty / static_cast<double>(below.size()) : in_level / filled / kept;
      sum += p * std::log(p / q);
    }
  }
  return sum;
}

QParams calculate_entropy(const torch::jit::Module& observer) {
  return qparams_of_counts(observer, entropy_range);
}

QParams observe_entropy(const ResolvedObserver& config, const at::Tensor& tensor) {
  return qparams_of_tensor(config, tensor, entropy_range);
}

}  // namespace

ClippedRange entropy_range(const HistogramView& view, int64_t levels) {
  if (view.min_val == view.max_val) return {view.min_val, view.max_val};
  const Bins bins = absolute_values(view);
  const bool has_two_sides = view.min_val < 0 && view.max_val > 0;
  const auto steps = static_cast<std::size_t>(has_two_sides ? levels / 2 : levels);
  const std::size_t size = bins.counts.size();
  const std::size_t stride = std::max<std::size_t>(1, size / kThresholds);
  double above = 0;
  double least = std::numeric_limits<double>::infinity();
  std::size_t best = size;
  for (std::size_t end = size; end >= steps && end > 0; end -= std::min(end, stride)) {
    const double found = divergence(std::span(bins.counts).first(end), above, steps);
    if (found < least) {
      least = found;
      best = end;
    }
    for (std::size_t i = end - std::min(end, stride); i < end; ++i) above += bins.counts[i];
  }
  const auto threshold = static_cast<float>(static_cast<double>(best) * bins.width);
  return {std::max(view.min_val, -threshold), std::min(view.max_val, threshold)};
}

/// tsq's own: the range that keeps most of the information in what HistogramObserver counts.
const ObserverKind entropy_observer{.name = observer_classes::kEntropy,
                                    .source = kHistogramSource,
                                    .state = plain_histogram_state,
                                    .calculate_qparams = calculate_entropy,
                                    .observe_once = observe_entropy,
                                    .compiled = compiled_counts,
                                    .saw_data = saw_range,
                                    .merge = merge_histograms};

}  // namespace tsq
