#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <torch/csrc/jit/api/module.h>
#include <tsq/qconfig.h>
#include <tsq/symbol.h>

#include <cstdint>
#include <optional>
#include <string>

#include "ir/weighted.h"

namespace tsq::operators {

/// Whether a module class is a convolution, a transposed convolution or a linear layer of torch.nn.
[[nodiscard]] bool is_weighted(Symbol type);
[[nodiscard]] bool is_transposed(Symbol type);

/// The observer for the weight of a layer of class `type` whose QConfig has `spec`. B-19: FX refuses a model
/// that has per-channel weights of a transposed convolution. Along axis 1, of the output channels, they are
/// kept; along another axis, the default 0 among them, kernels would read them as scales of other channels:
/// the observer's counterpart for whole tensors takes their place.
[[nodiscard]] ObserverSpec weight_observer(Symbol type, ObserverSpec spec);

[[nodiscard]] int64_t output_channels(Symbol type, const ir::Weighted& weighted);

/// Whether a layer of this class has a weight and a bias of the shapes that LibTorch takes, which hold
/// numbers. Other layers stay as they are: some run (Linear(8, 0), a sparse weight), and no pass could round
/// them.
[[nodiscard]] bool is_sound(Symbol type, const ir::Weighted& weighted);

/// The parameters of such a module, from its attributes and constants, or, in a traced file, from the
/// arguments of the operator in its forward. Empty when they cannot be told, or are not sound.
std::optional<ir::Weighted> weighted_parameters(Symbol type, const torch::jit::Module& module);

/// A constant of a module: attribute, class constant, or the argument `argument` of the first `op` in its
/// forward (traced files).
std::optional<c10::IValue> module_constant(const torch::jit::Module& module, const std::string& name,
                                           c10::Symbol op, const std::string& argument);

/// A batch norm's parameters; weight and bias undefined when it is not affine.
struct BatchNorm {
  at::Tensor weight{};
  at::Tensor bias{};
  at::Tensor running_mean{};
  at::Tensor running_var{};
  double eps{1e-5};
};
/// Empty when the module has no running statistics, or tensors of several sizes.
std::optional<BatchNorm> batch_norm_parameters(const torch::jit::Module& module);

/// A copy of a batch norm that divides its input's channels by `input` and multiplies its output's by
/// `output`, each undefined for nothing. Empty for a module without parameters of its own.
std::optional<torch::jit::Module> scaled_batch_norm(const torch::jit::Module& module, const at::Tensor& input,
                                                    const at::Tensor& output);

/// torch.nn.utils.fusion.fuse_conv_bn_weights / fuse_linear_bn_weights, the same operations in the same order
/// (C-21).
ir::Weighted fold_batch_norm(const ir::Weighted& weighted, const BatchNorm& bn, Symbol type);

/// A convolution without padding that computes what it did after the batch norm, from the batch norm's
/// input.
ir::Weighted fold_batch_norm_before(const ir::Weighted& weighted, const BatchNorm& bn);

}  // namespace tsq::operators
