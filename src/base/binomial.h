#pragma once

#include <cmath>
#include <cstdint>

namespace tsq::detail {

/// Whether `found` of `of` are more than a share of `share`, by more than chance: were the share no larger,
/// so many would be found in less than one of forty cases (the binomial distribution).
inline bool is_more_than(uint64_t found, uint64_t of, double share) {
  constexpr double kLevel = 0.025;
  const auto n = static_cast<double>(of);
  double below = 0;
  for (uint64_t i = 0; i < found; ++i) {
    const auto k = static_cast<double>(i);
    const double ways = std::lgamma(n + 1) - std::lgamma(k + 1) - std::lgamma(n - k + 1);
    below += std::exp(ways + k * std::log(share) + (n - k) * std::log1p(-share));
  }
  return 1 - below < kLevel;
}

}  // namespace tsq::detail
