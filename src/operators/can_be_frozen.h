#pragma once

#include <torch/csrc/jit/api/module.h>

namespace tsq::operators {

/// Does torch::jit::freeze come to an end? It does not for a model that reads statistics which a norm of it
/// updates (LibTorch 2.13); optimize_for_inference freezes, too.
bool can_be_frozen(const torch::jit::Module& module);

}  // namespace tsq::operators
