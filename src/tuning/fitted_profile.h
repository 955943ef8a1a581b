#pragma once

#include <tsq/machine_profile.h>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "tuning/kernel_call.h"

namespace tsq::tuning {

/// Adds to a profile what was measured: the coefficients of each kind of kernel.
void fit(std::span<const MeasuredCall> calls, MachineProfile& profile);

/// How far the times that a profile predicts are from those of other random calls.
struct PredictionErrors {
  std::string kind{};  ///< of kernel: "x86 quantized::conv2d grouped"
  std::size_t calls{0};
  double median{0};  ///< of |predicted - measured| / measured
  double most{0};    ///< of nine calls in ten
};

/// By kind, and of all calls of kinds that the profile knows.
struct ProfileErrors {
  std::vector<PredictionErrors> kinds{};
  PredictionErrors all{};
};
[[nodiscard]] ProfileErrors errors_of(const MachineProfile& profile, std::span<const MeasuredCall> calls);

}  // namespace tsq::tuning
