#pragma once

#include <torch/csrc/jit/api/module.h>

namespace tsq::torchscript {

/// tsq reads what modules of torch.nn hold by its name, and as the type that PyTorch gives it. The code of a
/// file may declare another one, and LibTorch runs it all the same where forward does not read it. Throws
/// Error(BadModel) that names the first such constant or attribute.
void check_known_constants(const torch::jit::Module& model);

}  // namespace tsq::torchscript
