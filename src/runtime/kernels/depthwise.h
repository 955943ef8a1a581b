#pragma once

#include <cstdint>

namespace tsq::runtime {

/// Channels that the kernel computes at once.
inline constexpr std::int64_t kDepthwiseChannels = 64;
/// Rows of the window whose products are added in one instruction.
inline constexpr std::int64_t kDepthwiseRows = 4;

/// A depthwise convolution of two dimensions, channels last, from `u8` to `u8`.
struct DepthwiseTask {
  std::int64_t channels = 0;
  std::int64_t input_height = 0;
  std::int64_t input_width = 0;
  std::int64_t output_height = 0;
  std::int64_t output_width = 0;
  std::int64_t kernel = 3;  ///< rows and columns of the window
  std::int64_t stride = 1;
  std::int64_t padding_top = 0;
  std::int64_t padding_left = 0;
  std::uint8_t zero_point = 0;  ///< stands outside of the image
  float low = 0;                ///< bounds of what is written
  float high = 255;

  /// How many groups of four products a window has: four rows of a column, the rest of the rows of a column,
  /// or for 5 rows four columns of the last one.
  [[nodiscard]] std::int64_t taps() const { return kernel == 5 ? 7 : kernel == 7 ? 14 : 3; }
};

/// For each block of channels: its weights as `depthwise_weight_index` orders them, as many scales as
/// channels of a block, and as many offsets.
struct DepthwiseWeights {
  const std::int8_t* weights = nullptr;
  const float* scales = nullptr;
  const float* offsets = nullptr;
};

/// Where the kernel looks for a weight of a block of channels.
[[nodiscard]] inline std::int64_t depthwise_weight_index(const DepthwiseTask& task, std::int64_t channel,
                                                         std::int64_t row, std::int64_t column) {
  // Bytes of 16 channels are turned over within 128 bits: 4 channels of each such part go to one register.
  const std::int64_t part = channel / 16;
  const std::int64_t quarter = channel % 16 / 4;
  const std::int64_t lane = part * 4 + channel % 4;
  const bool across = task.kernel == 5 && row == 4;
  const std::int64_t tap = across ? 5 + column / 4 : task.kernel == 7 ? column * 2 + row / 4 : column;
  return ((tap * 4 + quarter) * 16 + lane) * kDepthwiseRows + (across ? column % 4 : row % 4);
}

/// Units: images times rows of the output times blocks of channels.
using DepthwiseKernel = void (*)(const DepthwiseTask& task, const DepthwiseWeights& weights, void* out,
                                 const void* in, std::int64_t begin, std::int64_t end);

/// None if this processor has no products of bytes (AVX-512 VNNI).
DepthwiseKernel depthwise_kernel();

}  // namespace tsq::runtime
