#pragma once

#include <cstdint>
#include <limits>

#include "backends/kernels/target.h"

namespace tsq::kernels {

/// Every number by which one kernel rather than another is chosen on an engine. Found by running LibTorch
/// 2.13. A cell that a row of the table does not set has one value for all engines: the one that stands here.
struct EngineCosts {
  static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

  // Exact sums.

  /// Channels: depthwise convolutions of two and three dimensions with at least this many go to fbgemm's own
  /// kernels, which add pairs of products in 16 bits on every processor.
  int64_t fbgemm_depthwise_channels{kNever};
  /// Whether the other kernels add more than two products exactly with VNNI alone.
  bool needs_vnni{false};

  // Filter banks.

  /// Copies of a value in the windows over a signal: up to this many, a linear layer over the windows is as
  /// fast as a convolution.
  int64_t copies_of_signal{8};

  // What kernels take.

  /// Groups of a transposed convolution for which the engine x86 takes oneDNN.
  int64_t onednn_transposed_groups{100};
  /// The scale of an addend, divided by that of the sum: QNNPACK refuses to add where it is less than the
  /// first number, or not less than the second.
  double least_addend_scale{0x1p-14};
  double addend_scale_limit{0x1p8};
};

/// The costs of a target's runtime and engine. For those that are not in the table (fused programs), what all
/// have in common.
[[nodiscard]] const EngineCosts& costs_of(const Target& target);

}  // namespace tsq::kernels
