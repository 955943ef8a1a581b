#pragma once

#include <tsq/report.h>

namespace tsq::detail {

/// Sums over the operators that compute with tensors.
struct Totals {
  std::size_t operators{0};
  std::size_t quantized{0};
  std::size_t in_kernels{0};
  std::size_t without_tensors{0};  ///< the other ones
  bool has_macs{false};
  int64_t macs{0};
  int64_t int8_macs{0};
  bool has_seconds{false};
  double seconds{0};
  double int8_seconds{0};

  [[nodiscard]] double macs_share() const;
  [[nodiscard]] double seconds_share() const;
};

Totals totals(const Report& report);

}  // namespace tsq::detail
