#pragma once

#include <tsq/recipe.h>
#include <tsq/report.h>

#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "ir/graph_module.h"

/// Ranges, weights and biases that lose less by rounding.
namespace tsq::passes {

/// What maxima and minima compare is rounded as their result is, which rounds no more.
///   obs3(maximum(obs1(a), obs2(b)))   →   obs3(maximum(obs3(a), obs3(b)))
void share_ranges_of_extremes(ir::GraphModule& gm);

/// Channels between two layers that use only a part of the tensor's range are multiplied in the first layer's
/// weight and divided in the second's, where that lowers the expected error.
/// `margin` times the largest value that was seen stays inside of the range.
///   a → relu → observer → b   →   a (rows · s) → relu → observer → b (columns / s)
void equalize_across_layers(ir::GraphModule& gm, std::span<const torch::jit::Module> observers, double margin,
                            Report& report);

/// Multiplications where a float value becomes quantized in front of a layer, or float after a convolution:
/// as above, where they save much of the error.
///   sqrt → observer → a   →   sqrt → mul(s) → observer → a (columns / s)
///   a → observer → norm   →   a (rows · s) → observer → mul(1 / s) → norm
void equalize_float_values(ir::GraphModule& gm, std::span<const torch::jit::Module> observers, double margin,
                           Report& report);

/// Parameters that are equal in all calls of a layer become one, as they were in the model's file.
void share_parameters(ir::GraphModule& gm);

/// Makes the scales of weights larger where a kernel of the current engine adds pairs of products in 16 bits
/// and these could overflow. Notes in the report of how many channels.
void bound_pair_sums(ir::GraphModule& gm, TargetCpu cpu, Report& report);

/// Notes in the report, for each layer whose kernel on the current engine adds pairs of products in 16 bits,
/// whether these can overflow: for no input, for inputs outside of the calibrated range, or within it. The
/// bound is exact for the weights at hand.
void report_pair_sums(const ir::GraphModule& gm, TargetCpu cpu, Report& report);

/// Weights → the codes, up or down, that lower the expected error of the layer's output; the bias takes the
/// mean of what is left. `on_layer` is called after each layer that is rounded so.
void round_weights(ir::GraphModule& gm, TargetCpu cpu, const std::function<void()>& on_layer = {});

/// Adds what rounding the weights takes from the mean output of each channel to its bias.
void correct_biases(ir::GraphModule& gm);

/// What the sums of each output channel are too large by, on average, by node (Decision::node).
using MeanErrors = std::map<std::string, at::Tensor>;

/// Takes the errors off the biases of a reference model's layers. Calls of one layer have the same error, so
/// that they can go on sharing its bias.
void correct_mean_errors(ir::GraphModule& gm, const MeanErrors& errors);

/// Equalization observers → scales of input channels (Q-05 … Q-08): multiplied in front of the layer, or put
/// into the weight and bias of the equalized layer before it; the layer's weight is divided by them.
/// Observers of what is scaled are replaced or appended in `observers`, the calibrated instances of
/// gm.observers.
void convert_equalization(ir::GraphModule& gm, std::vector<torch::jit::Module>& observers);

/// The observers that smooth() put in → scales of channels, with the migration strength `alpha`: the
/// activations are divided by them, in the LayerNorm's own parameters where nobody else reads it, the
/// weights' columns multiplied.
void convert_smoothing(ir::GraphModule& gm, std::vector<torch::jit::Module>& observers, double alpha);

}  // namespace tsq::passes
