#pragma once

#include <cstdint>
#include <limits>

#include "backends/kernels/target.h"

namespace tsq::kernels {

/// Every number by which float or int8, or one kernel rather than another, is chosen on an engine. Found by
/// running LibTorch 2.13; times are those of one thread of an AMD Zen 5. A cell that a row of the table does
/// not set has one value for all engines: the one that stands here.
struct EngineCosts {
  static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
  static constexpr int64_t kAny = 0;

  // Exact sums.

  /// Channels: depthwise convolutions of two and three dimensions with at least this many go to fbgemm's own
  /// kernels, which add pairs of products in 16 bits on every processor.
  int64_t fbgemm_depthwise_channels{kNever};
  /// Whether the other kernels add more than two products exactly with VNNI alone.
  bool needs_vnni{false};

  // Grouped and padded convolutions.

  /// Groups: from this many on, convolutions that fbgemm has no fast kernel for take many times as long as
  /// float ones.
  int64_t slow_groups{kNever};
  /// Input channels of a group: up to this many, such convolutions are slow.
  int64_t channels_of_slow_groups{8};
  /// Taps along a dimension: depthwise convolutions are fast up to this size, which has to be odd, with half
  /// of it as padding; kAny: with each.
  int64_t largest_fast_depthwise_kernel{kAny};
  /// Taps along a dimension: up to this size, a kernel pads its input itself in less time than an operator in
  /// front of it; kAny: always.
  int64_t largest_kernel_that_pads{kAny};
  /// Multiply-accumulates for each byte that a kernel reads, by which it may grow to pad itself: padding
  /// floats, with a dequantize and a quantize, takes as long. Half as many where it reads floats.
  double products_to_grow{std::numeric_limits<double>::infinity()};
  /// Input channels up to which it may.
  int64_t channels_to_grow{kNever};

  // Layers over single points.

  /// Float weights of a layer over single points, up to which it is faster in float: its int8 kernel takes
  /// longer to start than reading the floats takes. 0: none is.
  int64_t largest_weight_at_points{0};
  // Small layers: two choices for accuracy, no costs. Called from C++, the int8 kernel is the faster one from
  // 256 multiply-accumulates on.

  /// Multiply-accumulates of one call of a linear layer that returns float values, up to which it stays float
  /// where its share is small as well: float takes 1 microsecond longer for 64 x 64, 4 for 256 x 256, and at
  /// this bound 3 (64 rows of 64 x 64) to 21 (one row of 512 x 512). In a fused program it is up to 3.
  int64_t products_of_small_layer{1 << 18};
  /// Such a layer may have at most one in this many of the network's multiply-accumulates.
  int64_t share_of_small_layers{20};

  // Kernels that return float.

  /// Nanoseconds a value: what an activation takes by itself, between a quantized input and a quantized
  /// output, less what it takes after a layer that returns float, the rounding included. Between 6,000 and
  /// 400,000 values.
  double saved_by_prelu{0.13};
  double saved_by_hardswish{0.28};
  double saved_by_silu{0.35};
  /// Nanoseconds a value: reading the bytes of a quantized tensor.
  double to_get_bytes{0.6};
  /// Nanoseconds a value: dequantize.
  double to_dequantize{0.13};
  /// Nanoseconds: what a call of a kernel that reads bytes takes besides, because it sets its primitive up
  /// each time.
  double of_a_call{10'000};
  /// Slopes of a PReLU: where their number is a multiple of this, they fill vectors, and the quantized kernel
  /// takes 0.5 nanoseconds a value, the float one with its rounding 0.4; otherwise 3 to 8, and 0.3 to 0.8.
  /// (ELU: 10 to 20, and 1.6 to 2.)
  int64_t slopes_of_vectors{64};

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
/// have in common: of what keeps a layer from its int8 kernel, the choices for small layers alone.
[[nodiscard]] const EngineCosts& costs_of(const Target& target);

}  // namespace tsq::kernels
