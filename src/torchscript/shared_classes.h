#pragma once

#include <torch/csrc/jit/api/module.h>

namespace tsq::torchscript {

/// The model with its modules that have classes of tsq's own: those whose classes are equal but for their
/// names are instances of one. LibTorch writes and reads a file in a time that grows with the square of the
/// number of its classes.
torch::jit::Module with_shared_classes(const torch::jit::Module& root);

}  // namespace tsq::torchscript
