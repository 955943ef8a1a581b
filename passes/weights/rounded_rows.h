#pragma once

#include <cstdint>
#include <span>

namespace tsq::passes {

/// Rows that share each piece of a covariance, which may be larger than the cache.
inline constexpr int64_t kRowsAtATime = 16;

/// One row of a weight on its way.
struct RoundedRow {
  std::span<float> codes;
  std::span<const float> nearest;
  std::span<float> gradient;  ///< covariance times the row's error
  float scale{};
  bool changes{true};  ///< the last round changed a code, or there was none
};

/// Each code in turn takes the value that is best given the others (coordinate descent), from the nearest
/// ones on, so that the error never grows, until no code changes. Takes at most kRowsAtATime rows of the same
/// columns; `covariance` is [columns, columns].
void improve_codes(std::span<RoundedRow> rows, std::span<const float> covariance);

}  // namespace tsq::passes
