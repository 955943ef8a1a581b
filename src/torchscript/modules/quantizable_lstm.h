#pragma once

#include <torch/csrc/jit/api/module.h>
#include <tsq/qconfig.h>

/// PyTorch's own custom module: nn.LSTM → torch.ao.nn.quantizable.LSTM → torch.ao.nn.quantized.LSTM (E-09).
namespace tsq::torchscript {

/// Takes the layer apart into linear layers, sums and products, each with an observer of the QConfig's
/// activation: `forward(x, hidden=None)` returns `(output, (h, c))`. Throws Error(BadModel) for an LSTM whose
/// weights or form the file does not show, and for one with projections.
torch::jit::Module quantizable_lstm(const torch::jit::Module& lstm, const QConfig& qconfig);

/// The same in int8, packed for the current engine: of quantized tensors, and returning such.
torch::jit::Module quantized_lstm(const torch::jit::Module& observed, const QConfig& qconfig);

}  // namespace tsq::torchscript
