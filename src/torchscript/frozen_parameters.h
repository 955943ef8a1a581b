#pragma once

#include <torch/csrc/jit/api/module.h>

namespace tsq::torchscript {

/// A frozen file's weights and biases as parameters that train (QT-98): the constants that operators of its
/// forward read as such, named after the first of them, "conv2d_0_weight". Batch norms that freezing folded
/// stay folded. `model` itself where it has parameters or no such constants.
torch::jit::Module with_frozen_parameters(const torch::jit::Module& model);

}  // namespace tsq::torchscript
