#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>

namespace torch::jit {
struct Module;
}

namespace tsq {

/// The parameters and buffers of a module and its children by name, as Python's state_dict() has them; the
/// tensors are the module's own.
std::map<std::string, at::Tensor> state_dict(const torch::jit::Module& module);

/// Copies tensors into the parameters and buffers of these names, as Python's load_state_dict does, but all
/// of them or none. Throws Error(BadModel) that names the missing and the unexpected keys and the tensors of
/// other sizes, and leaves the module as it was then; without `strict` only sizes are checked, and keys that
/// one side lacks are left out. Not safe while another thread runs the module.
void load_state_dict(const torch::jit::Module& module, const std::map<std::string, at::Tensor>& tensors,
                     bool strict = true);

}  // namespace tsq
