#pragma once

#include <torch/csrc/jit/api/module.h>

namespace tsq::torchscript {

/// A trace of a batch norm that is called several times in training mode hands its counter on from call to
/// call:
///   y, counter = bn.forward(x); z = bn.forward1(counter, w)   →   y = bn.forward(x); z = bn.forward(w)
/// Changes the classes of `model`, which are to be its own.
void call_batch_norms_alike(const torch::jit::Module& model);

}  // namespace tsq::torchscript
