#pragma once

#include <torch/csrc/jit/api/module.h>
#include <tsq/qconfig.h>

#include <cstdint>

namespace tsq {

/// A fresh fake quantize module: a TorchScript module `forward(X: Tensor) -> Tensor` that observes X, rounds
/// it as its dtype would and lets gradients through, with PyTorch's class names, buffers and exported methods
/// (QT-50 to QT-52, QT-61). Buffers have their final size, `channels` where a channel has a scale of its own:
/// memory out of a file does not grow (QT-89). 0 channels: as many as the first tensor has. Throws
/// Error(BadConfig) for a spec without a fake quantize class, and for observers that no fake quantize module
/// of tsq reads.
torch::jit::Module make_fake_quantize(const ObserverSpec& spec, int64_t channels);

/// Whether a module is a fake quantize module, PyTorch's or tsq's, also of a mangled class out of a file.
bool is_fake_quantize(const torch::jit::Module& module);

/// The observer inside.
torch::jit::Module observer_of_fake_quantize(const torch::jit::Module& fake_quantize);

}  // namespace tsq
