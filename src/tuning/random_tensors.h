#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace tsq::tuning {

/// What random tensors hold. Times do not depend on it, but for a zero point of 0, which spares kernels
/// their corrections.
inline constexpr double kScale = 0.05;
inline constexpr std::int64_t kZeroPoint = 64;

/// Values of a standard normal distribution. Channels come second and lie side by side, as int8 convolutions
/// return them; `contiguous`: in the order of dimensions.
at::Tensor random_float(at::IntArrayRef sizes, bool contiguous = false);
at::Tensor quantize(const at::Tensor& x);
/// As random_float, in quint8.
at::Tensor random_codes(at::IntArrayRef sizes);
/// A weight in qint8 with a scale for each channel of its output, which come first.
at::Tensor quantize_weight(const at::Tensor& weight);

}  // namespace tsq::tuning
