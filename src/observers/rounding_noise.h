#pragma once

#include <torch/csrc/jit/api/module.h>

#include <optional>

namespace tsq {

/// The squared error of rounding what `observer` has seen to 8 bits, as a share of its squares. Empty where
/// it has seen nothing, for zeros alone, and for classes that do not count values.
std::optional<double> rounding_noise(const torch::jit::Module& observer);

}  // namespace tsq
