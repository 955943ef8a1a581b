#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "backends/kernels/target.h"

/// For which layers the kernels of LibTorch 2.13 are exact and fast, by engine. The numbers are in costs.h.
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

/// A convolution, as the engines choose a kernel for it.
struct GroupedConvolution {
  int64_t dims{};
  int64_t groups{};
  int64_t channels_in{};   ///< of a group
  int64_t channels_out{};  ///< of a group
  std::span<const int64_t> kernel{};
  std::span<const int64_t> stride{};
  std::span<const int64_t> padding{};
  std::span<const int64_t> dilation{};
};

/// Whether the engine's kernel takes two to two hundred times as long as the float one: fbgemm has fast
/// kernels for images alone, for some sizes, and goes through all others group by group.
bool is_slower_than_float(const Target& target, const GroupedConvolution& convolution);

/// Whether an activation's kernel takes several times as long as the float operator with a dequantize and a
/// quantize around it, where the channels of its input lie side by side. `slopes`: of a PReLU, otherwise 1.
bool is_slower_than_float(const Target& target, std::string_view activation_kernel, int64_t slopes);

/// A convolution of images, with all channels in one group, that would grow to pad itself.
struct GrowingKernel {
  bool reads_bytes{};        ///< the output of a kernel, which would be dequantized to be padded
  int64_t channels{};        ///< of its input
  double products_to_add{};  ///< multiply-accumulates, for each value of its input
};
/// Whether that takes less time than padding its input by an operator.
bool grows_faster_than_padding(const Target& target, const GrowingKernel& kernel);

}  // namespace tsq::kernels
