#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

/// What numbers of a stopwatch say. No function of this file measures anything.
namespace tsq::bench {

struct Interval {
  double low{0};
  double high{0};
  [[nodiscard]] bool contains(double value) const noexcept { return low <= value && value <= high; }
};

/// One number for each round of each launch. A launch is a set of fresh processes: what differs between two
/// of them (where memory lies, which core computes) stays the same for all rounds of one.
using Launches = std::vector<std::vector<double>>;

/// The value that `share` of the numbers do not exceed, interpolated between its neighbours. `sorted` is in
/// ascending order and not empty.
double quantile(std::span<const double> sorted, double share);
double median(std::vector<double> values);

/// How single calls are distributed.
struct Spread {
  std::size_t count{0};
  double min{0};
  double median{0};
  double mean{0};
  double p90{0};
  double p95{0};
  double p99{0};
  double max{0};
};
/// `values` are not empty.
Spread spread_of(std::vector<double> values);

/// The bootstrap's 95 % interval of the median. Source: Efron, "Bootstrap Methods" (1979).
Interval median_interval(std::span<const double> values);

/// How many times as large one set of numbers is as another, with its 95 % interval.
struct Ratio {
  double value{1};
  /// None of fewer than three launches: one does not show how launches differ, and of two the interval of
  /// Student's distribution is over ten times as wide as their difference.
  std::optional<Interval> interval{};
  [[nodiscard]] bool is_a_difference() const noexcept { return interval && !interval->contains(1); }
};

/// The mean over the launches of the median ratio of a round. The interval is that of a bootstrap that draws
/// launches first and rounds within them, widened to Student's distribution for the few launches. Source:
/// Kalibera and Jones, "Rigorous Benchmarking in Reasonable Time" (2013).
/// `paired`: number i of both was taken in the same round i, so that a change of the machine's speed meets
/// both.
Ratio paired_ratio(const Launches& above, const Launches& below);
/// The same where the rounds of the two have nothing to do with one another: the ratio of their medians.
Ratio unpaired_ratio(const Launches& above, const Launches& below);

/// Whether calls no longer become faster: the least of the last quarter does not undercut the least before it
/// by more than 2 %. Needs at least 8 of them.
bool is_warm(std::span<const double> seconds);

}  // namespace tsq::bench
