#pragma once

#include "passes/context/pass_context.h"

/// Observers go in.
namespace tsq::passes {

/// Puts observers into the graph (D-01 … D-37), marks the nodes of observed patterns for convert, and writes
/// the report's entry of each operator. Model::matches is empty afterwards.
bool observe(ir::Model& model, const PassContext& context);

/// Puts observed modules in the places of modules of classes that context.custom maps, where what they return
/// is observed (E-08). Throws Error(BadConfig) where that cannot be done.
///   observer(Custom(x))   →   observer(ObservedCustom(x))
bool observe_custom_modules(ir::Model& model, const PassContext& context);

/// Puts an equalization observer after the input observer of each observed layer that context.equalization
/// names (Q-01 … Q-04). Says in the report which layers cannot be equalized, and why.
///   x → observer → linear   →   x → observer → equalization observer → linear
bool equalize(ir::Model& model, const PassContext& context);

/// Puts an observer of channels in front of the linear layers that read a LayerNorm's output, one for all
/// that read the same (SmoothQuant). Says in the report which layers are smoothed.
///   ln → observer → q, k, v   →   ln → observer → equalization observer → q, k, v
bool smooth(ir::Model& model, const PassContext& context);

/// Results of comparisons are not fake-quantized: FX observes them too and then stops at the fused operator,
/// which takes float32 alone.
///   c = gt(x, 0); o = observe(c); y = mul(x, o)   →   c = gt(x, 0); y = mul(x, c)
bool leave_conditions(ir::Model& model, const PassContext& context);

/// One range where the branches of an `if` meet, so that the value stays quantized after it.
///   if c: a = obs1(x) else: a = obs2(y); obs3(a)   →   if c: a = obs1(x) else: a = obs1(y); a
bool join_branches(ir::Model& model, const PassContext& context);

/// The float input of an operator whose output has a fixed range (sigmoid, tanh, softmax) is observed as
/// other values are. FX observes it with the range of the output, which cuts off all that is negative or
/// large.
///   x → observer of 0..1 → sigmoid   →   x → observer → sigmoid
bool observe_fixed_inputs(ir::Model& model, const PassContext& context);

/// Puts an observer in front of observed layers that read a value of which nothing tells before the model
/// runs that it is a float tensor: out of a dict, or made of sizes and numbers and written in place. FX
/// leaves these inputs in float, and the layer with them.
///   d["out"] → conv   →   d["out"] → observer → conv
bool observe_layer_inputs(ir::Model& model, const PassContext& context);

/// Observes queries, keys and values in front of the attention of a fused program, parts of what a layer
/// returns each by themselves.
///   matmul(q, k) of q, k, v = chunk(observer(linear(x)))   →   matmul(observer1(q), observer2(k))
bool observe_attention(ir::Model& model, const PassContext& context);

/// Puts an observer of channels before each convolution and linear layer that is observed, and after each
/// convolution that float operators read.
///   x → observer → conv   →   x → observer → channel observer → conv
bool observe_channels(ir::Model& model, const PassContext& context);

/// Puts an observer of the products of what a row of the weight meets before convolutions and linear layers.
///   x → observer → conv   →   x → observer → conv, with im2col(x) → product observer beside it
bool observe_input_products(ir::Model& model, const PassContext& context);

/// Observers in front of activations that saturate see what differs to these alone: values clamped by nodes
/// that prepare never saw, which drop_observed_clamps takes away after calibration.
///   conv → observer → hardswish   →   conv → clamp(-3) → observer → hardswish
bool clamp_observed(ir::Model& model, const PassContext& context);

/// Observers of TorchScript's uninitialized values stand where these are read.
///   a = obs(b); if taken: linear(a)   →   if taken: linear(obs(b))
bool observe_where_read(ir::Model& model, const PassContext& context);

/// Tells the branches of an `if` apart that have one range: which of them samples came to.
///   if c: a = obs1(conv(x)) else: a = obs1(linear(x))   →   the same, with an observer after each obs1
bool observe_branches(ir::Model& model, const PassContext& context);

/// ObserverEntry::module of every observer, and Model::weight_fake_quants of a model that trains.
bool make_observers(ir::Model& model, const PassContext& context);

/// Numbers the values of the graph (ir::value_number), so that what calibration sees of each is known by all
/// that follows.
bool number_values(ir::Model& model, const PassContext& context);

}  // namespace tsq::passes
