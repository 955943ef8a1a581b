#include <tsq/bench/statistics.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <random>

#include "base/student.h"

namespace tsq::bench {
namespace {

using Random = std::mt19937;

constexpr double kTail = 0.025;  // on each side of a 95 % interval
constexpr std::size_t kResamples = 1000;

const std::vector<double>& one_of(const Launches& launches, Random& random) {
  return launches[std::uniform_int_distribution<std::size_t>(0, launches.size() - 1)(random)];
}

std::vector<double> resampled(std::span<const double> values, Random& random) {
  std::uniform_int_distribution<std::size_t> index(0, values.size() - 1);
  std::vector<double> drawn(values.size());
  std::ranges::generate(drawn, [&] { return values[index(random)]; });
  return drawn;
}

double mean_of_medians(const Launches& launches) {
  double sum = 0;
  for (const std::vector<double>& launch : launches) sum += median(launch);
  return sum / static_cast<double>(launches.size());
}

/// The same for launches and rounds that are drawn with replacement.
double resampled_mean_of_medians(const Launches& launches, Random& random) {
  double sum = 0;
  for (std::size_t i = 0; i < launches.size(); ++i)
    sum += median(resampled(one_of(launches, random), random));
  return sum / static_cast<double>(launches.size());
}

constexpr std::size_t kFewestLaunches = 3;

/// By how much a bootstrap over few launches is too narrow: its variance lacks the factor n / (n - 1), and
/// its quantiles are the normal distribution's.
double widening(std::size_t launches) {
  const auto n = static_cast<double>(launches);
  constexpr double kNormal = 1.960;
  return detail::student_975(launches - 1) / kNormal * std::sqrt(n / (n - 1));
}

Launches logarithms(Launches launches) {
  for (std::vector<double>& launch : launches) {
    for (double& value : launch) value = std::log(value);
  }
  return launches;
}

/// A ratio out of its logarithm, and of what `resample` makes of it.
Ratio ratio_of(double value, std::size_t launches, const std::function<double(Random&)>& resample) {
  if (launches < kFewestLaunches) return {.value = std::exp(value)};
  Random random(0);
  std::vector<double> resamples(kResamples);
  std::ranges::generate(resamples, [&] { return resample(random); });
  std::ranges::sort(resamples);
  const auto end = [&](double share) {
    return std::exp(value + widening(launches) * (quantile(resamples, share) - value));
  };
  return {.value = std::exp(value), .interval = Interval{end(kTail), end(1 - kTail)}};
}

}  // namespace

double quantile(std::span<const double> sorted, double share) {
  const double place = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return std::lerp(sorted[below], sorted[above], place - static_cast<double>(below));
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return quantile(values, 0.5);
}

Spread spread_of(std::vector<double> values) {
  std::ranges::sort(values);
  return {.count = values.size(),
          .min = values.front(),
          .median = quantile(values, 0.5),
          .mean = std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size()),
          .p90 = quantile(values, 0.9),
          .p95 = quantile(values, 0.95),
          .p99 = quantile(values, 0.99),
          .max = values.back()};
}

Interval median_interval(std::span<const double> values) {
  Random random(0);
  std::vector<double> medians(kResamples);
  std::ranges::generate(medians, [&] { return median(resampled(values, random)); });
  std::ranges::sort(medians);
  return {quantile(medians, kTail), quantile(medians, 1 - kTail)};
}

Ratio paired_ratio(const Launches& above, const Launches& below) {
  Launches ratios(above.size());
  for (std::size_t launch = 0; launch < above.size(); ++launch) {
    for (std::size_t round = 0; round < above[launch].size(); ++round)
      ratios[launch].push_back(std::log(above[launch][round] / below[launch][round]));
  }
  return ratio_of(mean_of_medians(ratios), ratios.size(),
                  [&](Random& random) { return resampled_mean_of_medians(ratios, random); });
}

Ratio unpaired_ratio(const Launches& above, const Launches& below) {
  const Launches upper = logarithms(above);
  const Launches lower = logarithms(below);
  return ratio_of(mean_of_medians(upper) - mean_of_medians(lower), std::min(upper.size(), lower.size()),
                  [&](Random& random) {
                    return resampled_mean_of_medians(upper, random) -
                           resampled_mean_of_medians(lower, random);
                  });
}

bool is_warm(std::span<const double> seconds) {
  constexpr std::size_t kFewest = 8;
  constexpr double kFaster = 0.98;
  if (seconds.size() < kFewest) return false;
  const auto last = seconds.end() - static_cast<std::ptrdiff_t>(seconds.size() / 4);
  return *std::min_element(last, seconds.end()) >= kFaster * *std::min_element(seconds.begin(), last);
}

}  // namespace tsq::bench
