#pragma once

#include <cstdint>
#include <string_view>

namespace tsq::kernels {

/// How much one call of a kernel does, in the numbers that its time may depend on: sizes of the layer and of
/// what it reads and returns. Counts are doubles, for they are multiplied.
struct KernelWork {
  double values_in{0};   ///< of all tensors that it reads but weights
  double values_out{0};  ///< of all that it returns
  double weights{0};     ///< numbers of its weight

  // Of layers and products: `rows` times `groups` times `outputs` values, each the sum of `taps` times
  // `inputs` products.
  double batch{1};   ///< of a convolution: images
  double rows{0};    ///< positions of the result, over the whole batch
  double groups{1};  ///< of channels; of a batch of products of matrices, how many
  double inputs{0};  ///< channels of a group that are read
  double outputs{0};
  double taps{1};      ///< of a window
  bool is_same{true};  ///< an odd window with half of it as padding and no dilation
  bool is_strided{false};
  /// The channels of an image or a signal lie side by side, and it has more than one position.
  bool is_channels_last{false};
  /// Of fused programs: an image that comes in, or goes out, in the order of its dimensions.
  bool is_turned{false};
  bool is_returned{false};  ///< what is written is the caller's, who has new memory for each call

  // Of others.
  double lines{0};  ///< numbers of the input that lie side by side: rows, or the channels of a position
  double steps{0};  ///< of recurrent layers

  // Of operations of fused programs: values of the result that post-ops read or compute besides.
  double simple_posts{0};    ///< clamps and sums with a constant
  double function_posts{0};  ///< functions that take an exponential
  double heavy_posts{0};     ///< functions that take more
  double tensor_posts{0};    ///< sums with, or products by, another tensor

  bool operator==(const KernelWork&) const = default;
};

/// A kernel that runs on so many threads. `engine`: of LibTorch, where one of its engines has it; "fused" for
/// operations of fused programs; empty for what is one kernel on all.
struct Kernel {
  std::string_view name{};  ///< of the operator, without overload ("quantized::conv2d"), or of the operation
  std::string_view engine{};
  int threads{1};
};

}  // namespace tsq::kernels
