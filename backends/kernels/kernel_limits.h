#pragma once

#include <cstdint>

#include "backends/kernels/target.h"

/// For which layers the kernels of LibTorch 2.13 are exact, by engine. The numbers are in costs.h.
namespace tsq::kernels {

/// A convolution with as many groups as channels in and out, of `dims` dimensions, or any other weighted
/// operator.
struct WeightedShape {
  bool depthwise{};
  int64_t dims{};      ///< 0: a linear layer
  int64_t channels{};  ///< out
};

/// Whether a kernel adds pairs of products of bytes in 16 bits, where 255 * (127 + 127) does not fit.
/// fbgemm's depthwise kernels do on every CPU, the others only without VNNI, those of programs as well;
/// qnnpack's never do.
bool sums_pairs_in_16_bits(const Target& target, const WeightedShape& shape);

/// Whether kernels make whole numbers of 32 bits of their biases, in steps of the product of the scales:
/// qnnpack's do, the others add floats.
bool rounds_biases(const Target& target);

}  // namespace tsq::kernels
