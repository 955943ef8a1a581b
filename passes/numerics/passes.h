#pragma once

#include "passes/context/pass_context.h"

/// Ranges that lose less by rounding, and the ranges themselves.
namespace tsq::passes {

/// Channels between layers that use only a part of the tensor's range are multiplied in the weight of the
/// layer that computes them and divided in those that read them, across all that hands factors on, where that
/// lowers the expected error. context.options.cross_layer_margin times the largest value that was seen stays
/// inside of the range.
///   a → relu → observer → b   →   a (rows · s) → relu → observer → b (columns / s)
bool equalize_across_layers(ir::Model& model, const PassContext& context);

/// Multiplications where a float value becomes quantized in front of a layer, or float after a convolution:
/// as above, where they save much of the error.
///   sqrt → observer → a   →   sqrt → mul(s) → observer → a (columns / s)
///   a → observer → norm   →   a (rows · s) → observer → mul(1 / s) → norm
bool equalize_float_values(ir::Model& model, const PassContext& context);

/// Factors of the channels that a depthwise layer reads, after the activation that computes them, undone in
/// its weights; for targets that multiply before they round. Model::input_factors, which are measured where
/// the samples are known: only where rounding costs less in values that the ranges were not found with.
///   hardswish → observer → depthwise   →   hardswish → mul(s) → observer → depthwise (columns / s)
bool scale_depthwise_inputs(ir::Model& model, const PassContext& context);

/// The observers that smooth put in → scales of channels, with the migration strength of the options: the
/// activations are divided by them, in the LayerNorm's own parameters where nobody else reads it, the
/// weights' columns multiplied.
bool convert_smoothing(ir::Model& model, const PassContext& context);

/// Equalization observers → scales of input channels (Q-05 … Q-08): multiplied in front of the layer, or put
/// into the weight and bias of the equalized layer before it; the layer's weight is divided by them.
/// Observers of what is scaled are replaced or appended.
bool convert_equalization(ir::Model& model, const PassContext& context);

/// ObserverEntry::result of every observer that is in use: their searches for a range run side by side.
bool find_qparams(ir::Model& model, const PassContext& context);

/// Model::before_rounding: a copy of the graph, with which correct_mean_errors compares.
bool keep_before_rounding(ir::Model& model, const PassContext& context);

}  // namespace tsq::passes
