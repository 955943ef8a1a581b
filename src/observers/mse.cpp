#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "config/names/observer_classes.h"
#include "observers/histogram_ranges.h"
#include "observers/histogram_state.h"
#include "observers/observer_kind.h"
#include "observers/uniform_qparams.h"

namespace tsq {
namespace {

/// Shares of the whole range that are tried on each side: evenly spread, then ever smaller.
constexpr int kSteps = 40;
constexpr double kSmallestEvenShare = 0.1;
constexpr int kSmallSteps = 16;
constexpr double kSmallStep = 0.75;
/// An error of clipping has one sign and adds up in the next layer, errors of rounding cancel.
constexpr double kClippingWeight = 4.0;
/// A bin with this many times the values of its neighbours holds one value more than once, and so many values
/// that chance cannot have it.
constexpr double kSpike = 4.0;
constexpr double kManyValues = 8.0;
constexpr std::array kPercentiles{99.9, 99.99, 99.999};

struct Candidate {
  double lowest{};
  double highest{};
};

/// Values that were counted: one value often, or a bin of values.
struct Mass {
  double value{};
  double count{};
  bool is_spread{};
};

struct Counted {
  std::vector<Mass> masses{};
  double bin{};
};

/// The values of a histogram. Clamps make spikes of one value: at the ends of the range, and at zero, which
/// is exact whatever the range is and left out.
Counted counted(const HistogramView& view) {
  const Bins bins = bins_of(view);
  Counted result{.bin = bins.width};
  const std::size_t last = bins.counts.size() - 1;
  for (std::size_t i = 0; i <= last; ++i) {
    const double count = bins.counts[i];
    if (count == 0) continue;
    const double lower = view.min_val + static_cast<double>(i) * bins.width;
    const double left = bins.counts[i == 0 ? std::min<std::size_t>(1, last) : i - 1];
    const double right = bins.counts[i == last ? last - std::min<std::size_t>(1, last) : i + 1];
    const double around = std::min(count, (left + right) / 2);
    double spike = 0;
    if (count >= kManyValues && count > kSpike * around) {
      spike = count - around;
      const double center = lower + bins.width / 2;
      const bool holds_zero = lower <= 0 && lower + bins.width >= 0;
      const double value = holds_zero ? 0 : i == 0 ? view.min_val : i == last ? view.max_val : center;
      if (value != 0) result.masses.push_back({.value = value, .count = spike});
    }
    if (count > spike)
      result.masses.push_back({.value = lower + bins.width / 2, .count = count - spike, .is_spread = true});
  }
  return result;
}

/// Whether nearly all values are among a few, as those of an image of bytes. Where these lie halfway between
/// two codes, as from -1 to 1, one level more spreads them over the codes.
bool is_discrete(const Counted& counted) {
  constexpr double kShareOfOthers = 0.01;
  double all = 0;
  double spread = 0;
  for (const Mass& mass : counted.masses) {
    all += mass.count;
    if (mass.is_spread) spread += mass.count;
  }
  return spread <= kShareOfOthers * all;
}

/// The squared error of the counted values, weighted, when `candidate` becomes `levels` steps.
double error_of(const Counted& counted, const Candidate& candidate, int64_t levels) {
  const double last = static_cast<double>(levels - 1);
  const double step = (candidate.highest - candidate.lowest) / last;
  if (!(step > 0)) return std::numeric_limits<double>::infinity();
  const double zero_point = std::nearbyint(-candidate.lowest / step);
  const bool bins_are_coarse = step < 2 * counted.bin;
  double error = 0;
  for (const Mass& mass : counted.masses) {
    const double code = std::nearbyint(mass.value / step) + zero_point;
    const double kept = std::clamp(code, 0.0, last);
    const double difference = mass.value - (kept - zero_point) * step;
    if (kept != code) {
      error += mass.count * kClippingWeight * difference * difference;
    } else {
      const bool is_unknown = bins_are_coarse && mass.is_spread;
      error += mass.count * (is_unknown ? step * step / 12 : difference * difference);
    }
  }
  return error;
}

class RangeSearch {
 public:
  RangeSearch(const HistogramView& view, int64_t levels)
      : view_(view),
        levels_(levels),
        counted_(counted(view)),
        whole_{.lowest = std::min(view.min_val, 0.0F), .highest = std::max(view.max_val, 0.0F)} {}

  /// What other observers choose, then one side after the other, twice: the sides hardly depend on each
  /// other.
  Candidate run() {
    attempt(whole_);
    for (const double percentile : kPercentiles) attempt(within(percentile_range(view_, percentile)));
    attempt(within(entropy_range(view_, levels_)));
    for (int round = 0; round < 2; ++round) {
      attempt_shares(&Candidate::highest);
      attempt_shares(&Candidate::lowest);
    }
    attempt_exact_ends();
    return best_;
  }

 private:
  static Candidate within(const ClippedRange& range) {
    return {.lowest = std::min(range.min_val, 0.0F), .highest = std::max(range.max_val, 0.0F)};
  }

  /// `worth`: the share of the least error so far that the candidate's must stay below.
  void attempt(const Candidate& candidate, double worth = 1) {
    const double error = error_of(counted_, candidate, levels_);
    if (error >= worth * least_) return;
    least_ = error;
    best_ = candidate;
  }

  void attempt_shares(double Candidate::*side) {
    if (whole_.*side == 0) return;
    Candidate candidate = best_;
    const auto attempt_share = [&](double share) {
      candidate.*side = whole_.*side * share;
      attempt(candidate);
    };
    if (is_discrete_) attempt_share(1 + 1 / static_cast<double>(levels_ - 1));
    for (int step = 0; step < kSteps; ++step) attempt_share(1 - (1 - kSmallestEvenShare) * step / kSteps);
    double share = kSmallestEvenShare;
    for (int step = 0; step < kSmallSteps; ++step, share *= kSmallStep) attempt_share(share);
  }

  /// One end as a code of its own, the other a little nearer to zero: for spikes at an end, as the white of
  /// images has.
  void attempt_exact_ends() {
    constexpr double kWorth = 0.9;  // less is chance
    const Candidate found = best_;
    const double last = static_cast<double>(levels_ - 1);
    const double step = (found.highest - found.lowest) / last;
    const double above = std::ceil(found.highest / step);
    const double below = std::ceil(-found.lowest / step);
    if (above > 0 && above < last)
      attempt({.lowest = -(last - above) * found.highest / above, .highest = found.highest}, kWorth);
    if (below > 0 && below < last)
      attempt({.lowest = found.lowest, .highest = -(last - below) * found.lowest / below}, kWorth);
  }

  const HistogramView& view_;
  int64_t levels_;
  Counted counted_;
  bool is_discrete_{is_discrete(counted_)};
  Candidate whole_;
  Candidate best_{whole_};
  double least_{std::numeric_limits<double>::infinity()};
};

ClippedRange least_error_range(const HistogramView& view, int64_t levels) {
  const Candidate range = RangeSearch(view, levels).run();
  return {static_cast<float>(range.lowest), static_cast<float>(range.highest)};
}

QParams calculate_mse(const torch::jit::Module& observer) {
  return qparams_of_counts(observer, least_error_range);
}

QParams observe_mse(const ResolvedObserver& config, const at::Tensor& tensor) {
  return qparams_of_tensor(config, tensor, least_error_range);
}

}  // namespace

/// tsq's own: the range of the least squared error over what HistogramObserver counts. HistogramObserver's
/// search takes values for evenly spread inside of a bin, zeros after a relu too, and stops at the first
/// range that is worse than the one before.
const ObserverKind mse_observer{.name = observer_classes::kMSE,
                                .source = kHistogramSource,
                                .state = plain_histogram_state,
                                .calculate_qparams = calculate_mse,
                                .observe_once = observe_mse,
                                .compiled = compiled_counts,
                                .saw_data = saw_range,
                                .merge = merge_histograms};

}  // namespace tsq
