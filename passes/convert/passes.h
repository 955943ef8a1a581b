#pragma once

#include "passes/context/pass_context.h"

/// Observers become quantize and dequantize.
namespace tsq::passes {

/// Weights and biases of functions in int8 that are computed from parameters, as by a cast from half
/// precision, become attributes: what lowering packs is known now, and the file needs no more than that.
///   linear(x, observer(to(w, float32)))   →   linear(x, observer(w'))
bool fold_cast_weights(ir::Model& model, const PassContext& context);

/// Weighted modules that are placed in int8 get the qparams of their weight, and reference modules take their
/// places (K-08 … K-12).
bool quantize_weights(ir::Model& model, const PassContext& context);

/// Observed modules of classes that context.convert_custom maps become quantized ones (E-10, E-15); those of
/// static QConfigs read their first input quantized and return a quantized tensor. Throws Error(BadConfig)
/// where that cannot be done.
///   observer(Observed(x))   →   Quantized(x)
bool quantize_custom_modules(ir::Model& model, const PassContext& context);

/// Observers → quantize / dequantize pairs (K-01 … K-13).
///   obs(x)   →   dequantize(quantize_per_tensor(x, scale, zero_point, dtype))
bool convert(ir::Model& model, const PassContext& context);

/// Values that all branches of an `if` dequantize alike are dequantized after it.
///   if c: a = dequantize(p) else: a = dequantize(q)   →   if c: b = p else: b = q; a = dequantize(b)
bool dequantize_after_branches(ir::Model& model, const PassContext& context);

}  // namespace tsq::passes
