#pragma once

#include <ATen/ATen.h>

#include "ir/weighted.h"

namespace tsq::passes {

/// Takes off a layer's bias what its outputs are too large by: [outputs]. A layer without bias gets one.
inline void take_off_bias(ir::Weighted& weighted, const at::Tensor& excess) {
  const at::Tensor bias = weighted.bias.defined() ? weighted.bias.detach()
                                                  : at::zeros({excess.size(0)}, weighted.weight.options());
  weighted.bias = (bias.to(at::kDouble) - excess).to(bias.scalar_type());
}

}  // namespace tsq::passes
