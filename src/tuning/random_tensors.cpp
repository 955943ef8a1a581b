#include "tuning/random_tensors.h"

#include <ATen/ops/full.h>
#include <ATen/ops/quantize_per_channel.h>
#include <ATen/ops/quantize_per_tensor.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>

namespace tsq::tuning {
namespace {

/// LibTorch has no memory format for signals: they are images of one line.
at::Tensor channels_last(const at::Tensor& x) {
  switch (x.dim()) {
    case 3:
      return x.transpose(1, 2).contiguous().transpose(1, 2);
    case 4:
      return x.contiguous(at::MemoryFormat::ChannelsLast);
    case 5:
      return x.contiguous(at::MemoryFormat::ChannelsLast3d);
    default:
      return x;
  }
}

}  // namespace

at::Tensor random_float(at::IntArrayRef sizes, bool contiguous) {
  const at::Tensor x = at::randn(sizes);
  return contiguous ? x : channels_last(x);
}

at::Tensor quantize(const at::Tensor& x) {
  return at::quantize_per_tensor(x, kScale, kZeroPoint, at::kQUInt8);
}

at::Tensor random_codes(at::IntArrayRef sizes) { return quantize(random_float(sizes)); }

at::Tensor quantize_weight(const at::Tensor& weight) {
  const std::int64_t channels = weight.size(0);
  return at::quantize_per_channel(weight, at::full({channels}, kScale, at::kDouble),
                                  at::zeros({channels}, at::kLong), /*axis=*/0, at::kQInt8);
}

}  // namespace tsq::tuning
