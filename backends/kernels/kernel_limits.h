#pragma once

#include <cstdint>

#include "backends/kernels/target.h"

/// For which layers the kernels of LibTorch 2.13 are exact, by engine. The numbers are in costs.h.
namespace tsq::kernels {

/// Of a convolution, transposed or not, or a linear layer.
struct WeightedShape {
  bool depthwise{};    ///< as many groups as channels in and out
  int64_t dims{};      ///< 0: a linear layer
  int64_t channels{};  ///< out
  bool transposed{};
};

/// Which two products of bytes a kernel adds in 16 bits, where 255 * (127 + 127) does not fit. Neighbours: in
/// the order of the taps, and of the channels of a group in each, the first with the second, the third with
/// the fourth, and so on.
enum class PairSums { None, Neighbours, Any };

/// fbgemm's depthwise kernels add pairs on every CPU, the others only without VNNI; qnnpack's never do, nor
/// do those of programs for depthwise layers.
PairSums pair_sums(const Target& target, const WeightedShape& shape);

/// Whether kernels make whole numbers of 32 bits of their biases, in steps of the product of the scales:
/// qnnpack's do, the others add floats.
bool rounds_biases(const Target& target);

}  // namespace tsq::kernels
