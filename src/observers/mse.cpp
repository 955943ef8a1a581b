#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "observers/histogram_state.h"
#include "observers/observer_kind.h"
#include "observers/uniform_qparams.h"

namespace tsq {
namespace {

/// Shares of the whole range that are tried on each side.
constexpr int kSteps = 40;
constexpr double kSmallestShare = 0.1;
/// An error of clipping has one sign and adds up in the next layer, errors of rounding cancel.
constexpr double kClippingWeight = 4.0;

struct Candidate {
  double lowest{};
  double highest{};
};

/// The squared error of the counted values, weighted, when `candidate` becomes `levels` steps. Zero, of which
/// activations have many, is exact.
double error_of(std::span<const float> counts, const HistogramView& view, const Candidate& candidate,
                int64_t levels) {
  const double bin = (static_cast<double>(view.max_val) - view.min_val) / static_cast<double>(counts.size());
  const double step = (candidate.highest - candidate.lowest) / static_cast<double>(levels - 1);
  if (!(step > 0)) return std::numeric_limits<double>::infinity();
  const double zero_point = std::nearbyint(-candidate.lowest / step);
  const bool bins_are_coarse = step < 2 * bin;
  double error = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] == 0) continue;
    const double value = view.min_val + (static_cast<double>(i) + 0.5) * bin;
    const double code = std::nearbyint(value / step) + zero_point;
    const double kept = std::clamp(code, 0.0, static_cast<double>(levels - 1));
    const double difference = value - (kept - zero_point) * step;
    if (kept != code) {
      error += counts[i] * kClippingWeight * difference * difference;
    } else {
      error += counts[i] * (bins_are_coarse ? step * step / 12 : difference * difference);
    }
  }
  return error;
}

/// One side after the other, twice: the sides hardly depend on each other.
Candidate best_range(const HistogramView& view, int64_t levels) {
  const at::Tensor histogram = view.histogram.contiguous();
  const std::span<const float> counts(histogram.const_data_ptr<float>(),
                                      static_cast<std::size_t>(histogram.numel()));
  const Candidate whole{.lowest = std::min(view.min_val, 0.0F), .highest = std::max(view.max_val, 0.0F)};
  Candidate best = whole;
  double least = error_of(counts, view, best, levels);
  const auto try_shares = [&](double Candidate::*side) {
    if (whole.*side == 0) return;
    Candidate candidate = best;
    for (int step = 0; step < kSteps; ++step) {
      candidate.*side = whole.*side * (1 - (1 - kSmallestShare) * step / kSteps);
      const double error = error_of(counts, view, candidate, levels);
      if (error >= least) continue;
      least = error;
      best = candidate;
    }
  };
  for (int round = 0; round < 2; ++round) {
    try_shares(&Candidate::highest);
    try_shares(&Candidate::lowest);
  }
  return best;
}

QParams qparams_of(const UniformConfig& config, const HistogramView& view) {
  const Candidate range = best_range(view, config.quant_max - config.quant_min + 1);
  return qparams_of_range(config, at::scalar_tensor(range.lowest, at::kFloat),
                          at::scalar_tensor(range.highest, at::kFloat));
}

torch::jit::Module make(const ResolvedObserver& config) {
  static const ObserverClass observer_class = histogram_class("MSEObserver");
  return make_histogram(observer_class, config);
}

QParams calculate(const torch::jit::Module& observer) {
  const UniformConfig config = uniform_config(observer);
  if (!saw_range(observer)) return qparams_of_range(config, minimum_of_nothing(), maximum_of_nothing());
  return qparams_of(config, view_of(observer));
}

QParams observe(const ResolvedObserver& config, const at::Tensor& tensor) {
  const UniformConfig uniform = uniform_config(config);
  const auto view = histogram_of(tensor, config.bins);
  if (!view) return qparams_of_range(uniform, minimum_of_nothing(), maximum_of_nothing());
  return qparams_of(uniform, *view);
}

}  // namespace

/// tsq's own: the range of the least squared error over what HistogramObserver counts. HistogramObserver's
/// search takes values for evenly spread inside of a bin, zeros behind a relu too, and stops at the first
/// range that is worse than the one before.
const ObserverKind mse_observer{"MSEObserver", make, calculate, observe, saw_range, merge_histograms};

}  // namespace tsq
