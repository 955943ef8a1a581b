#pragma once

#include <ATen/core/ivalue.h>
#include <tsq/trial.h>

#include <optional>
#include <string>

namespace tsq::detail {

/// Sums over the floating-point tensors of results.
struct ErrorSums {
  double power{0};  ///< of what is wanted
  double error{0};  ///< of the difference
  std::size_t different_shapes{0};

  [[nodiscard]] bool compared() const noexcept { return power > 0 || error > 0; }
  /// 10 log10(power / error); infinite without a difference.
  [[nodiscard]] double sqnr_db() const;
};

/// Holds one result against another: adds to `sums`, or returns what is wrong with `got`. `free_shapes`:
/// lengths of tensors and lists depend on values, and may differ.
std::optional<TrialFault> compare_results(const c10::IValue& wanted, const c10::IValue& got, bool free_shapes,
                                          ErrorSums& sums);

}  // namespace tsq::detail
