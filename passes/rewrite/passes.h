#pragma once

#include <tsq/qconfig_mapping.h>

#include "ir/graph_module.h"

/// Float graphs become plainer ones.
namespace tsq::passes {

/// Matrix products with a constant to which `mapping` gives a dynamic or a weight-only QConfig, with
/// GraphModule::any_spelling a static one as well, become linear layers.
///   %y = aten::addmm(%b, %x, aten::t(%w))   →   y = Linear(x)
void lift_products(ir::GraphModule& gm, const QConfigMapping& mapping);

/// Assertions of torch.nn about the shape of an argument are removed: the operator after them checks it too.
void drop_library_assertions(ir::GraphModule& gm);

/// Where an operator writes into memory that others see, it and the views of that memory stay as they are,
/// and whatever reads the memory later reads a new value.
///   y = conv(x); y[:, 0] = 7; z = linear(y)   →   y = conv(x); y[:, 0] = 7; y1 = alias(y); z = linear(y1)
void keep_writes(ir::GraphModule& gm);

/// Modules that return their input in evaluation (Identity, Dropout) are removed.
///   y = Identity(x); z = conv(y)   →   z = conv(x)
void drop_identities(ir::GraphModule& gm);

/// SiLU and hardswish that are written out after a layer, and GELU, become one operator.
///   x * sigmoid(x)   →   silu(x)
void gather_activations(ir::GraphModule& gm);

/// A LayerNorm over the last dimension that is written out becomes one operator.
///   (x - mean(x)) / sqrt(mean((x - mean(x)) ** 2) + eps) * weight   →   layer_norm(x, weight, eps)
void gather_layer_norms(ir::GraphModule& gm);

/// The largest or smallest of several tensors without stacking them.
///   max(stack([a, b], dim), dim)[0]   →   maximum(a, b)
void maximum_of_stack(ir::GraphModule& gm);

/// A sum or product with a constant after a layer becomes part of its weight and bias.
///   conv(x) + b   →   conv(x) of another bias
void fold_arithmetic(ir::GraphModule& gm);

/// A batch norm before a convolution without padding becomes part of it.
///   y = BatchNorm2d(x); z = Conv2d(y)   →   z = Conv2d(x)
void fold_batch_norms(ir::GraphModule& gm);

}  // namespace tsq::passes
