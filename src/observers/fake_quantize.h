#pragma once

#include <torch/csrc/jit/api/module.h>
#include <tsq/observer.h>
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

/// PyTorch's calculate_qparams of such a module: its observer's, but for scales that learn.
QParams qparams_of_fake_quantize(const torch::jit::Module& fake_quantize);

/// The scale and zero point by which it rounds, which are not those of its observer everywhere (QT-54,
/// QT-55). The fused operator's are those of the range that it has now, also where rounding was off meanwhile
/// (QT-57).
QParams trained_qparams(const torch::jit::Module& fake_quantize);

}  // namespace tsq
