#pragma once

#include <torch/csrc/jit/api/module.h>

#include <string>
#include <unordered_set>
#include <vector>

namespace tsq::torchscript {

/// Puts on `module`, which was made of `model`, what users read of the latter: attributes and constants of
/// its own other than parameters and modules, those that `preserved` names, and the names, numbers and
/// settings of modules inside (`model.encoder.version`), where nothing writes them. `weights`: the memory of
/// tensors that have become the weights of layers, which are kept where `preserved` names them alone.
void keep_user_attributes(torch::jit::Module& module, const torch::jit::Module& model,
                          const std::vector<std::string>& preserved,
                          const std::unordered_set<const void*>& weights);

}  // namespace tsq::torchscript
