#pragma once

#include <torch/csrc/jit/api/module.h>

#include <string>
#include <vector>

namespace tsq::io {

/// The devices other than the CPU that the pickles and the code of a TorchScript archive name, each once:
/// "cuda:0". Throws what LibTorch's reader of archives throws.
std::vector<std::string> devices_in_archive(const std::string& path);

/// The CPU in the place of every other device that the model's code and attributes name. torch.jit.load moves
/// tensors alone: a traced `.to(x.device)` is a constant.
void move_to_cpu(torch::jit::Module& model);

}  // namespace tsq::io
