#pragma once

#include <cmath>
#include <cstdint>

namespace tsq::detail {

/// The ends of Wilson's two-sided 95 % interval for a share of which `found` in `of` were seen; `of` is not
/// 0.
struct ShareInterval {
  double low{0};
  double high{1};
};
inline ShareInterval wilson_95(uint64_t found, uint64_t of) {
  constexpr double kQuantile = 1.960;
  const auto n = static_cast<double>(of);
  const double share = static_cast<double>(found) / n;
  const double squared = kQuantile * kQuantile / n;
  const double middle = share + squared / 2;
  const double reach = kQuantile * std::sqrt(share * (1 - share) / n + squared / (4 * n));
  return {.low = (middle - reach) / (1 + squared), .high = (middle + reach) / (1 + squared)};
}

}  // namespace tsq::detail
