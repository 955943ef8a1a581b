#pragma once

#include <torch/csrc/jit/api/module.h>

namespace tsq::torchscript {

/// Throws Error(BadModel) for a default-constructed module.
void check_not_empty(const torch::jit::Module& model);

/// Throws Error(BadModel) for what cannot be prepared: a default-constructed module, one without forward, and
/// one with observers or quantized operators that prepare, convert or lower made, here or in Python's FX; for
/// one whose layers hold values of other types than PyTorch's, and for names that no file can hold.
void check_float_model(const torch::jit::Module& model);

}  // namespace tsq::torchscript
