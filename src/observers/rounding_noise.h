#pragma once

#include <torch/csrc/jit/api/module.h>

#include <optional>

namespace tsq {

/// Of a value, on average.
struct RoundingNoise {
  double squared_error{0};
  double square{0};

  [[nodiscard]] double share() const { return squared_error / square; }
};

/// The error of rounding what `observer` has seen to 8 bits. Empty where it has seen nothing, for zeros
/// alone, and for classes that do not count values.
std::optional<RoundingNoise> rounding_noise(const torch::jit::Module& observer);

}  // namespace tsq
