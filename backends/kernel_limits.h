#pragma once

#include <cstdint>
#include <string_view>

/// What the kernels of LibTorch 2.13 are exact and fast for, by engine. Found by running them.
namespace tsq::lowering {

/// A convolution with as many groups as channels in and out, of so many dimensions, or any other weighted
/// operator.
struct WeightedShape {
  bool depthwise{};
  int64_t dims{};      ///< 0: a linear layer
  int64_t channels{};  ///< out
};

/// Whether a kernel adds pairs of products of bytes in 16 bits, where 255 * (127 + 127) does not fit.
/// fbgemm's depthwise kernels do on every CPU, the others only without VNNI; qnnpack's never do.
bool sums_pairs_in_16_bits(std::string_view engine, const WeightedShape& shape, bool has_vnni);

/// The largest kernel that a depthwise convolution is fast with, whose size is odd and whose padding is half
/// of it; 0: any.
int64_t largest_fast_depthwise_kernel(std::string_view engine);

/// The largest kernel, along one dimension, that pads its input itself in less time than an operator in front
/// of it; 0: any.
int64_t largest_kernel_that_pads(std::string_view engine);

}  // namespace tsq::lowering
