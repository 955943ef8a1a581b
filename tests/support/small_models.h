#pragma once

#include <torch/csrc/jit/api/module.h>

#include <string>

namespace tsq::testing {

/// Leaf modules as a scripted PyTorch model holds them: PyTorch's class names, attributes and constants;
/// random weights from the current seed.
torch::jit::Module conv2d(int64_t in, int64_t out, int64_t kernel, bool bias = true);
torch::jit::Module conv_transpose2d(int64_t in, int64_t out, int64_t kernel);
torch::jit::Module batch_norm2d(int64_t channels);
torch::jit::Module relu();
torch::jit::Module prelu(int64_t slopes);
torch::jit::Module linear(int64_t in, int64_t out);
torch::jit::Module layer_norm(int64_t features);
torch::jit::Module max_pool2d();

/// A container of the user's own: class `__torch__.user.<name>`; give it children, then its forward's source.
torch::jit::Module user_module(const std::string& name);

/// conv → bn → relu, children "conv", "bn", "relu".
torch::jit::Module conv_bn_relu();
/// x → conv → relu, and the conv's output is read a second time by an addition.
torch::jit::Module conv_relu_with_skip();

/// Divides weights by the root of what each of their sums adds up, so that values stay as large as they are
/// in trained models.
void scale_as_trained(torch::jit::Module& model);

}  // namespace tsq::testing
