#pragma once

#include <torch/csrc/jit/api/module.h>
#include <tsq/custom_config.h>

#include "ir/graph_module.h"

namespace tsq::passes {

/// capture() that also looks into modules of torch.nn that are made of layers or compute their weight:
/// attention and transformers, parametrizations, weight_norm and spectral_norm. In place of the fused float
/// kernels of attention stand its layers and torch.scaled_dot_product_attention.
///   y = TransformerEncoderLayer(x)   →   q = linear(x, …) … y = LayerNorm(…)
ir::GraphModule capture_layers(const torch::jit::Module& module, const PrepareCustomConfig& custom);

/// capture() of a model that will be trained: `training` stays an attribute that the graph reads, and leaf
/// modules are those of `module`, not copies.
ir::GraphModule capture_for_training(const torch::jit::Module& module, const PrepareCustomConfig& custom);

/// Whether methods beside forward are captured as forward is, and not as they are: forward, quantized, must
/// take and return what it does in float. Layers of other dtypes compute in float between casts, which are
/// for those that call from outside.
bool opens_methods(const torch::jit::Module& model, const PrepareCustomConfig& custom);

}  // namespace tsq::passes
