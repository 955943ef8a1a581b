#pragma once

#include <torch/csrc/jit/api/module.h>

#include "ir/module_call.h"

namespace tsq::torchscript {

/// The module that a call runs, with PyTorch's names of class and attributes: its own one, or one that is
/// written from the parameters that the call holds (a convolution, a linear layer) or from the function that
/// it stands for (relu, tanh, leaky_relu). Throws Error(Unsupported) for a fused call.
torch::jit::Module float_module(const ir::ModuleCall& call);

}  // namespace tsq::torchscript
