#pragma once

#include "passes/context/pass_context.h"

/// Weights and biases that lose less by rounding.
namespace tsq::passes {

/// Weights → the codes, up or down, that lower the expected error of the layer's output; the bias takes the
/// mean of what is left.
bool round_weights(ir::Model& model, const PassContext& context);

/// Zero padding before a convolution becomes the convolution's own where place_padding said so; asymmetric
/// padding by a larger kernel.
///   conv3x3(pad(x, [0, 1, 0, 1]))   →   conv4x4(x), padding 1
bool fold_padding(ir::Model& model, const PassContext& context);

/// Makes the scales of weights larger where a kernel of the engine adds pairs of products in 16 bits
/// and these could overflow. Notes in the report of how many channels.
bool bound_pair_sums(ir::Model& model, const PassContext& context);

/// Makes the scales of weights larger where a kernel of the engine makes whole numbers of biases, and one
/// would not fit into 32 bits. Notes in the report of how many channels.
bool bound_biases(ir::Model& model, const PassContext& context);

/// A table of an embedding that is the weight of a quantized linear layer as well gets the layer's codes and
/// scales, one for each row.
///   Embedding(ids) … Linear(x) with one weight   →   both with the codes of the linear layer
bool tie_tables(ir::Model& model, const PassContext& context);

/// A linear layer whose weight is that of another, transposed, gets the other's rounded values, by which both
/// can be made of the same codes.
bool tie_transposes(ir::Model& model, const PassContext& context);

/// Adds what rounding the weights takes from the mean output of each channel to its bias.
bool correct_biases(ir::Model& model, const PassContext& context);

/// Takes what rounding adds to the mean sums of each channel, over context.samples, off the biases, and notes
/// it in Model::mean_errors; those that are there already are taken as they are. Calls of one layer have the
/// same error, so that they can go on sharing its bias.
bool correct_mean_errors(ir::Model& model, const PassContext& context);

/// Parameters that are equal in all calls of a layer become one, as they were in the model's file.
bool share_parameters(ir::Model& model, const PassContext& context);

/// Notes in the report, for each layer whose kernel on the engine adds pairs of products in 16 bits,
/// whether these can overflow: for no input, for inputs outside of the calibrated range, or within it. The
/// bound is exact for the weights at hand.
bool report_pair_sums(ir::Model& model, const PassContext& context);

}  // namespace tsq::passes
