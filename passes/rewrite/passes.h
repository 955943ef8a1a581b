#pragma once

#include "passes/context/pass_context.h"

/// Float graphs become plainer ones.
namespace tsq::passes {

/// Model::is_quantized: whether the mapping gives a QConfig to some operator, also to one that lift_products
/// would make. Where it does not, no pattern is rewritten and nothing is fused: a batch norm that a
/// convolution takes in changes the last bits.
bool find_whether_quantized(ir::Model& model, const PassContext& context);

/// Modules that return their input in evaluation (Identity, Dropout) are removed.
///   y = Identity(x); z = conv(y)   →   z = conv(x)
bool drop_identities(ir::Model& model, const PassContext& context);

/// SiLU and hardswish that are written out after a layer, and GELU, become one operator.
///   x * sigmoid(x)   →   silu(x)
bool gather_activations(ir::Model& model, const PassContext& context);

/// A LayerNorm over the last dimension that is written out becomes one operator.
///   (x - mean(x)) / sqrt(mean((x - mean(x)) ** 2) + eps) * weight   →   layer_norm(x, weight, eps)
bool gather_layer_norms(ir::Model& model, const PassContext& context);

/// The largest or smallest of several tensors without stacking them.
///   max(stack([a, b], dim), dim)[0]   →   maximum(a, b)
bool maximum_of_stack(ir::Model& model, const PassContext& context);

/// A sum or product with a constant after a layer becomes part of its weight and bias.
///   conv(x) + b   →   conv(x) of another bias
bool fold_arithmetic(ir::Model& model, const PassContext& context);

/// A batch norm before a convolution without padding becomes part of it.
///   y = BatchNorm2d(x); z = Conv2d(y)   →   z = Conv2d(x)
bool fold_batch_norms(ir::Model& model, const PassContext& context);

/// Matrix products with a constant to which the mapping gives a dynamic or a weight-only QConfig, with
/// Model::any_spelling a static one as well, become linear layers.
///   %y = aten::addmm(%b, %x, aten::t(%w))   →   y = Linear(x)
bool lift_products(ir::Model& model, const PassContext& context);

/// Assertions of torch.nn about the shape of an argument are removed: the operator after them checks it too.
bool drop_library_assertions(ir::Model& model, const PassContext& context);

/// Where an operator writes into memory that others see, it and the views of that memory stay as they are
/// (Placement::Written), and whatever reads the memory later reads a new value.
///   y = conv(x); y[:, 0] = 7; z = linear(y)   →   y = conv(x); y[:, 0] = 7; y1 = alias(y); z = linear(y1)
bool keep_writes(ir::Model& model, const PassContext& context);

/// In a model that trains, an operator that the table joins with what is in front of it moves into the
/// branches of a condition on the mode whose result it alone reads:
///   relu(y * 2 if self.training else y)   →   relu(y * 2) if self.training else relu(y)
bool join_mode_branches(ir::Model& model, const PassContext& context);

}  // namespace tsq::passes
