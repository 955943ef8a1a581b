#pragma once

#include <torch/csrc/jit/frontend/resolver.h>

#include <memory>

namespace tsq::torchscript {

/// What names mean in the source of the modules that tsq writes: TorchScript's own, and `quantized` and
/// `onednn` for the operators of those namespaces (`quantized.conv3d_prepack`).
std::shared_ptr<torch::jit::Resolver> source_resolver();

}  // namespace tsq::torchscript
