#pragma once

#include "passes/context/pass_context.h"

/// The user's module becomes a flat graph of float32. A pass returns whether it has changed the model.
namespace tsq::passes {

/// context.source → flat graph. Inlines every call except those of leaf modules (torch.nn.* that are no
/// containers, and the custom config's non-traceable ones) and torch.nn.functional.*; resolves attribute
/// chains; folds what depends on constants or on `training` only.
///   %y = CallMethod[forward](%block, %x)   →   conv = Conv2d(x); relu = ReLU(conv)
/// The user's module is not modified. Throws Error(BadModel).
bool capture(ir::Model& model, const PassContext& context);

/// capture that also looks into modules of torch.nn that are made of layers or compute their weight:
/// attention and transformers, parametrizations, weight_norm and spectral_norm. In place of the fused float
/// kernels of attention stand its layers and torch.scaled_dot_product_attention.
///   y = TransformerEncoderLayer(x)   →   q = linear(x, …) … y = LayerNorm(…)
bool capture_layers(ir::Model& model, const PassContext& context);

/// capture of a model that will be trained: `training` stays an attribute that the graph reads, and leaf
/// modules are those of the source, not copies.
bool capture_for_training(ir::Model& model, const PassContext& context);

/// Layers in half, bfloat16 or double precision, which no kernel quantizes, compute in float between casts;
/// so does everything else in these dtypes. Inputs and outputs keep the dtypes that they have in the model.
/// A model without such layers stays as it is.
///   y = conv(x)   →   y = half(conv(float(x)))
/// Throws Error(Unsupported) for an input or output that cannot be cast, an object of a class for example.
bool compute_in_float(ir::Model& model, const PassContext& context);

}  // namespace tsq::passes
