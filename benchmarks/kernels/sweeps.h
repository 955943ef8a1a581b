#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

/// Where a condition on sizes begins and where it ends.
namespace tsq::benchmarks {

using Sizes = std::vector<int64_t>;
using Condition = std::function<bool(int64_t size)>;

constexpr double kUnbounded = std::numeric_limits<double>::infinity();

/// The last size up to which the condition holds for all smaller ones; 0 where it does not hold for the
/// smallest, unbounded where it holds for all. `sizes` ascend.
inline double last_up_to_which(const Sizes& sizes, const Condition& holds) {
  const auto fails = std::ranges::find_if_not(sizes, holds);
  if (fails == sizes.end()) return kUnbounded;
  return fails == sizes.begin() ? 0 : static_cast<double>(*std::prev(fails));
}

/// Powers of two, both ends included.
inline Sizes powers_of_two(int64_t first, int64_t last) {
  Sizes sizes;
  for (int64_t size = first; size <= last; size *= 2) sizes.push_back(size);
  return sizes;
}

}  // namespace tsq::benchmarks
