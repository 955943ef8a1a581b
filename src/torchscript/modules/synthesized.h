#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/jit/api/module.h>
#include <tsq/symbol.h>

#include <cstdint>

#include "operators/weighted.h"

namespace tsq::torchscript {

/// Modules of torch.nn, made from parameters that a frozen file holds as constants. Their attributes have
/// PyTorch's names.
torch::jit::Module make_batch_norm(Symbol type, const operators::BatchNorm& parameters);
torch::jit::Module make_prelu(const at::Tensor& weight);
torch::jit::Module make_softmax(int64_t dim);

}  // namespace tsq::torchscript
