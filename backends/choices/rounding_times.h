#pragma once

#include <memory>

#include "backends/choices/choices.h"
#include "backends/kernels/machine_profile.h"

namespace tsq::kernels {

/// What it takes to round values, and to read what is rounded: nanoseconds by the target's profile, on one
/// thread, at the largest sizes that calibration saw; 0 where nobody knows.
class RoundingTimes {
 public:
  /// Both must outlive it.
  RoundingTimes(const Target& target, const ir::Model& model);

  [[nodiscard]] double quantize(const ir::Value* value) const;
  [[nodiscard]] double dequantize(const ir::Value* value) const;
  /// Kernels that return float read codes as a plain tensor, which a quantized one is copied to. 0 for
  /// others.
  [[nodiscard]] double codes(const Choice& choice, const ir::Node* op) const;

 private:
  [[nodiscard]] double of(const Kernel& kernel, const ir::Value* value) const;

  const Target& target_;
  const ir::Model& model_;
  std::shared_ptr<const MachineProfile> profile_;
};

}  // namespace tsq::kernels
