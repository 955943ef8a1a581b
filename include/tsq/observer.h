#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/QScheme.h>
#include <tsq/qconfig.h>

#include <cstdint>

namespace tsq {

/// Quantization parameters: q = clamp(round(x / scale) + zero_point, quant_min, quant_max).
/// Per tensor: `scale` float32 and `zero_point` int64 of shape [1]. Per channel: shape [channels] along
/// `axis`. per_channel_affine_float_qparams alone has a float32 zero point (M-04).
struct QParams {
  at::Tensor scale{};
  at::Tensor zero_point{};
  c10::ScalarType dtype{c10::ScalarType::QUInt8};
  /// Symmetric schemes have become their affine ones here (K-13).
  c10::QScheme qscheme{c10::QScheme::PER_TENSOR_AFFINE};
  int64_t axis{0};
};

/// The qparams that a fresh observer of this kind finds on one tensor, as FX finds those of weights at
/// convert (K-09). Throws Error(BadConfig) when the class has no qparams (Placeholder, Noop, Recording,
/// ReuseInput: M-19).
QParams observe_once(const ObserverSpec& spec, const at::Tensor& tensor);

}  // namespace tsq
