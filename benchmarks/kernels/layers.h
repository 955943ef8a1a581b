#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tuning/kernel_call.h"
#include "tuning/random_tensors.h"

/// Layers of networks as calls of LibTorch's kernels. int8 weights are packed for the engine that is set; the
/// call has to be made with the same one.
namespace tsq::benchmarks {

using tuning::kScale;
using tuning::kZeroPoint;
using tuning::Operator;
using tuning::quantize;
using tuning::quantize_weight;
using tuning::random_codes;
using tuning::random_float;

/// Work to be timed, with all that it needs made before.
using Call = std::function<void()>;

/// Of images (two dimensions) or signals (one), all of whose dimensions have the same numbers; batch 1.
struct Convolution {
  int64_t channels_in{1};
  int64_t channels_out{1};
  int64_t kernel{1};
  int64_t size{1};  ///< of the input, along each dimension
  int64_t stride{1};
  int64_t padding{0};
  int64_t groups{1};
  int64_t dilation{1};
  int64_t dims{2};
};
std::vector<int64_t> input_sizes(const Convolution& convolution);
/// Multiply-accumulates.
int64_t products(const Convolution& convolution);

Call float_convolution(const Convolution& convolution);
/// Bytes in, bytes out: the quantized kernel of the engine.
Call int8_convolution(const Convolution& convolution);
/// What the same layer returns for an input and a weight of one code each, in floats: exact where the kernel
/// adds exactly.
at::Tensor sums_of_equal_codes(const Convolution& convolution, int64_t input_code, int64_t weight_code);

/// onednn::qconv2d_pointwise (qconv1d_pointwise for signals), which reads bytes and returns floats, or bytes
/// with `post_op`. `x`: its input as bytes.
Call pointwise_convolution(const Convolution& convolution, const std::string& post_op, bool returns_bytes);

struct Linear {
  int64_t rows{1};
  int64_t in{1};
  int64_t out{1};
};
int64_t products(const Linear& linear);

Call float_linear(const Linear& linear);
/// Bytes in, bytes out.
Call int8_linear(const Linear& linear);
/// Floats in, floats out, multiplied in int8: with the range of the input known before (x86 and fbgemm), or
/// found by the kernel.
Call static_linear(const at::Tensor& x, int64_t out);
Call dynamic_linear(const at::Tensor& x, int64_t out);

/// Activations of a tensor of those sizes, bytes in and bytes out.
Call int8_prelu(const std::vector<int64_t>& sizes);
Call int8_hardswish(const std::vector<int64_t>& sizes);
/// Of a PReLU, one for each channel, which come second.
at::Tensor slopes_of(const std::vector<int64_t>& sizes);

struct Recurrent {
  int64_t steps{1};
  int64_t in{1};
  int64_t hidden{1};
};
int64_t products(const Recurrent& lstm);
Call float_lstm(const Recurrent& lstm);
Call dynamic_lstm(const Recurrent& lstm);

}  // namespace tsq::benchmarks
