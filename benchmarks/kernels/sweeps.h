#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <ranges>
#include <vector>

/// Where a condition on sizes begins and where it ends.
namespace tsq::benchmarks {

using Sizes = std::vector<int64_t>;
using Condition = std::function<bool(int64_t size)>;

constexpr double kUnbounded = std::numeric_limits<double>::infinity();

/// The first size from which the condition holds for all larger ones; unbounded where it does not hold for
/// the largest. `sizes` ascend.
inline double first_from_which(const Sizes& sizes, const Condition& holds) {
  const auto descending = sizes | std::views::reverse;
  const auto fails = std::ranges::find_if_not(descending, holds);
  return fails == descending.begin() ? kUnbounded : static_cast<double>(*std::prev(fails));
}

/// The last size up to which the condition holds for all smaller ones; 0 where it does not hold for the
/// smallest, unbounded where it holds for all. `sizes` ascend.
inline double last_up_to_which(const Sizes& sizes, const Condition& holds) {
  const auto fails = std::ranges::find_if_not(sizes, holds);
  if (fails == sizes.end()) return kUnbounded;
  return fails == sizes.begin() ? 0 : static_cast<double>(*std::prev(fails));
}

/// The largest size at which the condition holds, whatever smaller ones do; 0 where it holds for none,
/// unbounded where it holds for the largest. `sizes` ascend.
inline double last_at_which(const Sizes& sizes, const Condition& holds) {
  const auto descending = sizes | std::views::reverse;
  const auto found = std::ranges::find_if(descending, holds);
  if (found == descending.begin()) return kUnbounded;
  return found == descending.end() ? 0 : static_cast<double>(*found);
}

/// Powers of two, both ends included.
inline Sizes powers_of_two(int64_t first, int64_t last) {
  Sizes sizes;
  for (int64_t size = first; size <= last; size *= 2) sizes.push_back(size);
  return sizes;
}

}  // namespace tsq::benchmarks
