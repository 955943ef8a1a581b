#pragma once

#include <ATen/core/Tensor.h>

#include "ir/weighted.h"

namespace tsq::torchscript {

/// The values that a reference operator multiplies by: its weight, quantized with its qparams and
/// dequantized. The weight itself where it has none, or becomes float16, which packing does.
at::Tensor rounded_weight(const ir::Weighted& weighted);

}  // namespace tsq::torchscript
