#pragma once

#include <torch/csrc/jit/api/module.h>

namespace tsq::torchscript {

/// The model with operators that follow its mode again, where a trace holds the mode as a constant (QT-97):
///   aten::dropout(x, 0.5, True)   →   aten::dropout(x, 0.5, self.training)
/// So do norms that have running statistics, and attention that drops weights.
/// Batch norms count their batches in training mode. `model` itself where nothing is to be changed; a copy
/// with classes of its own and the same tensors otherwise.
torch::jit::Module with_traced_modes(const torch::jit::Module& model);

}  // namespace tsq::torchscript
