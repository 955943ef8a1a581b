#pragma once

#include <torch/csrc/jit/api/module.h>
#include <tsq/observer.h>

#include <optional>

namespace tsq {

/// Of a value, on average.
struct RoundingNoise {
  double squared_error{0};
  double square{0};

  [[nodiscard]] double share() const { return squared_error / square; }
};

/// Whether an observer has counted the values that it was shown.
[[nodiscard]] bool counts_values(const torch::jit::Module& observer);

/// The error of rounding what `observer` has counted to the 8 bits of its qparams. Empty where it has counted
/// nothing or zeros alone, and for other dtypes.
std::optional<RoundingNoise> rounding_noise(const torch::jit::Module& observer, const QParams& qparams);

}  // namespace tsq
