#include "torchscript/modules/rounded_weight.h"

#include <ATen/ATen.h>

#include "backends/kernels/packed.h"
#include "torchscript/modules/weight_only_linear.h"

namespace tsq::torchscript {
namespace {

at::Tensor rounded_groups(const ir::Weighted& weighted) {
  const QParams& qparams = *weighted.weight_qparams;
  const at::Tensor rounded =
      at::quantize_per_channel(weight_in_groups(weighted.weight.detach(), weighted.group_size),
                               qparams.scale.reshape({-1}), qparams.zero_point.reshape({-1}), 0,
                               c10::ScalarType::QUInt8)
          .dequantize();
  return rounded.reshape({weighted.weight.size(0), -1}).narrow(1, 0, weighted.weight.size(1)).contiguous();
}

}  // namespace

at::Tensor rounded_weight(const ir::Weighted& weighted) {
  if (!weighted.weight_qparams || weighted.weight_qparams->dtype == c10::ScalarType::Half)
    return weighted.weight;
  return weighted.group_size > 0 ? rounded_groups(weighted)
                                 : kernels::quantized_weight(weighted).dequantize();
}

}  // namespace tsq::torchscript
