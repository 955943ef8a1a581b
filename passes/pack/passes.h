#pragma once

#include "passes/context/pass_context.h"

/// The lowered graph as a file holds it.
namespace tsq::passes {

/// Views of what int8 kernels return: these lay channels last where the float operators did not, and view
/// refuses that. Where nobody writes into the view, it may be a copy; otherwise the memory that it is a view
/// of becomes contiguous.
///   view(dequantize(y))                  →   reshape(dequantize(y))
///   z = view(dequantize(y)); z.add_(1)   →   z = view(contiguous(dequantize(y))); z.add_(1)
bool view_any_layout(ir::Model& model, const PassContext& context);

/// What became of observed operators that lowering left without a kernel: they are computed in float between
/// dequantize and quantize, and the report gets the reason.
bool explain_unlowered(ir::Model& model, const PassContext& context);

/// Weights that are computed from parameters alone are packed now, not at every run (L-07).
bool fold_packed_weights(ir::Model& model, const PassContext& context);

/// Roundings that no kernel reads as bytes, around operators for which the engine turned out to have no
/// kernel.
///   linear(dequantize(quantize(x)))   →   linear(x), where quantize(x) has no other reader
bool drop_unread_roundings(ir::Model& model, const PassContext& context);

/// Constants that the graph would quantize or dequantize in each run are rounded now: the weights of layers
/// that got no kernel, and constants in front of other operators.
///   linear(x, dequantize(quantize(w)))   →   linear(x, w')
bool round_constants(ir::Model& model, const PassContext& context);

/// Packed params of calls that multiply with one weight, where saving them would save it for each: they are
/// packed when the file is loaded, of one weight.
bool hold_weights_once(ir::Model& model, const PassContext& context);

/// Where the model convolves, how many dimensions a tensor has is asked in a way that LibTorch's optimizer
/// does not fold: it takes each convolution for one of a batch.
///   dim(conv(x))   →   len(size(conv(x)))
bool count_dimensions(ir::Model& model, const PassContext& context);

}  // namespace tsq::passes
