#pragma once

#include <tsq/backend_config.h>
#include <tsq/custom_config.h>
#include <tsq/equalization.h>
#include <tsq/qconfig_mapping.h>
#include <tsq/recipe.h>
#include <tsq/report.h>

#include <functional>
#include <map>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "ir/graph_module.h"

/// Every pass, in the order in which a model meets them. A pass is a function on a GraphModule; passes share
/// no state and do not call each other. What a pass leaves for the next is in the GraphModule, or in the
/// table that it returns.
namespace tsq::passes {

/// `module` → flat graph. Inlines every call except those of leaf modules (torch.nn.* that are no containers,
/// and the custom config's non-traceable ones) and torch.nn.functional.*; resolves attribute chains; folds
/// what depends on constants or on `training` only.
///   %y = CallMethod[forward](%block, %x)   →   conv = Conv2d(x); relu = ReLU(conv)
/// The user's module is not modified. Throws Error(BadModel).
ir::GraphModule capture(const torch::jit::Module& module, const PrepareCustomConfig& custom);

/// Recurrent operators that tracing or freezing opened, or that users call themselves, with constant weights
/// become calls of torch.nn modules.
///   %y, %h, %c = aten::lstm(%x, %hx, constants, …)   →   y, h, c = LSTM(x, hx)
void lift_recurrent(ir::GraphModule& gm);

/// The plain form of what tracing and freezing write in their own: `_convolution`, numbers and sizes as
/// tensors, parameters as constants.
void untrace(ir::GraphModule& gm);

/// One spelling per operation: `aten::add_` → `aten::add` where nobody sees the difference; parameters of
/// convolutions and linear layers taken out of their modules.
void normalise(ir::GraphModule& gm);

/// Operators that tracing or freezing made of a torch.nn module, its parameters constants, become its calls
/// again.
///   %y = aten::conv2d(%x, constant, …)   →   y = Conv2d(x)
void lift(ir::GraphModule& gm);

/// Embeddings in every form become calls with their tables: modules, functions, and the operators that
/// tracing and freezing make of them, when the table is a parameter or constant.
///   %y = aten::embedding(constant, %indices, …)   →   y = Embedding(indices)
void lift_embeddings(ir::GraphModule& gm);

/// Matrix products with a constant to which `mapping` gives a dynamic or a weight-only QConfig, with
/// GraphModule::any_spelling a static one as well, become linear layers.
///   %y = aten::addmm(%b, %x, aten::t(%w))   →   y = Linear(x)
void lift_products(ir::GraphModule& gm, const QConfigMapping& mapping);

/// Assertions of torch.nn about the shape of an argument go away: the operator behind them complains itself.
void drop_library_assertions(ir::GraphModule& gm);

/// Where an operator writes into memory that others see, it and the views of that memory stay as they are,
/// and who reads the memory later reads a new value.
///   y = conv(x); y[:, 0] = 7; z = linear(y)   →   y = conv(x); y[:, 0] = 7; y1 = alias(y); z = linear(y1)
void keep_writes(ir::GraphModule& gm);

/// Modules that return their input in evaluation (Identity, Dropout) go away.
///   y = Identity(x); z = conv(y)   →   z = conv(x)
void drop_identities(ir::GraphModule& gm);

/// SiLU and hardswish that are written out behind a layer, and GELU, become one operator.
///   x * sigmoid(x)   →   silu(x)
void gather_activations(ir::GraphModule& gm);

/// A LayerNorm over the last dimension that is written out becomes one operator.
///   (x - mean(x)) / sqrt(mean((x - mean(x)) ** 2) + eps) * weight   →   layer_norm(x, weight, eps)
void gather_layer_norms(ir::GraphModule& gm);

/// The largest or smallest of several tensors without stacking them.
///   max(stack([a, b], dim), dim)[0]   →   maximum(a, b)
void maximum_of_stack(ir::GraphModule& gm);

/// A sum or product with a constant behind a layer becomes part of its weight and bias.
///   conv(x) + b   →   conv(x) of another bias
void fold_arithmetic(ir::GraphModule& gm);

/// A batch norm before a convolution without padding becomes part of it.
///   y = BatchNorm2d(x); z = Conv2d(y)   →   z = Conv2d(x)
void fold_batch_norms(ir::GraphModule& gm);

/// Replaces each match of a fusion row by the row's fused module, longest pattern first, then table order
/// (C-01, C-02, C-11).
///   bn = BatchNorm2d(conv); relu = ReLU(bn)   →   conv = ConvReLU2d(x)
void fuse(ir::GraphModule& gm, const BackendConfig& backend);

/// What became of observed operators that lowering left without a kernel: they are computed in float between
/// dequantize and quantize, and the report gets the reason.
void explain_unlowered(const ir::GraphModule& lowered, Report& report);

/// What an observer found.
struct ObserverResult {
  bool saw_data{true};
  std::optional<QParams> qparams{};  ///< none for observers without (placeholders)
  bool saw_other_dtype{false};       ///< a tensor that is not float32, and so cannot be quantized
};

/// How one node was matched.
struct Match {
  const BackendPatternConfig* row{};
  ir::Node* root{};                ///< the operator that gets the input observers
  ir::Node* last{};                ///< the operator whose output is observed
  std::vector<ir::Node*> nodes{};  ///< all of them, last first
  bool shares_observer{false};     ///< output shares the input's observer (A-23 applied)
};

/// The decision table: which nodes form which pattern, under which QConfig, and what the backend's dtype
/// checks say.
struct MatchTable {
  std::vector<Match> matches{};
  std::unordered_map<const ir::Node*, std::size_t> match_of{};        ///< node → index into `matches`
  std::unordered_map<const ir::Node*, QConfigDecision> qconfig_of{};  ///< every operator
  std::unordered_map<const ir::Node*, std::string>
      left_float{};  ///< operators that a recipe leaves float: why
};

/// Matches that have lost their nodes go away.
void remove_empty_matches(MatchTable& table);

/// Walks the graph in reverse order; the first row that matches wins (C-01 … C-10). Looks every node's
/// QConfig up (B-04 … B-16).
MatchTable match(const ir::GraphModule& gm, const QConfigMapping& mapping, const BackendConfig& backend);

/// Clamps (relu, relu6, hardtanh, clamp) join the match of the operator before them, whose range is then
/// observed behind the clamp.
///   {conv}, {hardtanh}   →   {conv, hardtanh}
void absorb_clamps(const ir::GraphModule& gm, MatchTable& table);

/// Operators without a weight that do not lie between quantized ones stay float: they would be rounded and
/// gain no time. Attention's products and softmax stay float, too, filter banks that float operators read,
/// and activations behind a layer whose kernel gives float, where the two are as fast so.
///   sqrt, {add}, sqrt   →   sqrt, add, sqrt
void leave_float_islands(const ir::GraphModule& gm, const PrepareCustomConfig& custom, MatchTable& table);

/// Concatenations of values that others read too do not share one range with all of their inputs.
void separate_concatenations(const ir::GraphModule& gm, MatchTable& table);

/// Sums and products with a number do not share the range of what they are computed from. Behind
/// absorb_clamps: their kernels do not saturate, so that no clamp may join them.
void separate_scalar_arithmetic(MatchTable& table);

/// Puts observers into the graph (D-01 … D-37), marks the nodes of observed patterns for convert, and adds an
/// entry per operator to the report.
void observe(ir::GraphModule& gm, const MatchTable& table, const BackendConfig& backend,
             const PrepareCustomConfig& custom, Report& report);

/// Puts an observer of channels before each convolution and linear layer that is observed, and behind each
/// convolution that float operators read.
///   x → observer → conv   →   x → observer → channel observer → conv
void observe_channels(ir::GraphModule& gm);

/// Puts an observer of the products of what a row of the weight meets before convolutions and linear layers.
///   x → observer → conv   →   x → observer → conv, with im2col(x) → product observer beside it
void observe_input_products(ir::GraphModule& gm);

/// Puts an equalization observer behind the input observer of each observed layer that `mapping` names
/// (Q-01 … Q-04). Says in the report which layers cannot be equalized, and why.
///   x → observer → linear   →   x → observer → equalization observer → linear
void equalize(ir::GraphModule& gm, const MatchTable& table, const EqualizationMapping& mapping,
              Report& report);

/// Puts an observer of channels in front of the linear layers that read a LayerNorm's output, one for all
/// that read the same (SmoothQuant). Says in the report which layers are smoothed.
///   ln → observer → q, k, v   →   ln → observer → equalization observer → q, k, v
void smooth(ir::GraphModule& gm, const MatchTable& table, Report& report);

/// One range where the branches of an `if` meet, so that the value stays quantized behind it.
///   if c: a = obs1(x) else: a = obs2(y); obs3(a)   →   if c: a = obs1(x) else: a = obs1(y); a
void join_branches(ir::GraphModule& gm);

/// What a calibrated observer found.
ObserverResult observer_result(const ObserverSpec& spec, const torch::jit::Module& observer);
/// Whether some node still names the observer (shared ones leave others without a use).
bool uses_observer(const ir::GraphModule& gm, std::size_t observer);

/// Values that all branches of an `if` dequantize alike are dequantized behind it.
///   if c: a = dequantize(p) else: a = dequantize(q)   →   if c: b = p else: b = q; a = dequantize(b)
void dequantize_behind_branches(ir::GraphModule& gm);

/// Takes what the observers of channels have found to their layers, and the observers away. The calls of one
/// layer are given what all of them have read.
void take_channel_statistics(ir::GraphModule& gm, std::span<const torch::jit::Module> observers);

/// Observers in front of activations that saturate see what differs to these alone: values clamped by nodes
/// that prepare never saw, which drop_observed_clamps takes away after calibration.
///   conv → observer → hardswish   →   conv → clamp(-3) → observer → hardswish
void clamp_observed(ir::GraphModule& gm);
void drop_observed_clamps(ir::GraphModule& gm);

/// What maxima and minima compare is rounded as their result is, which rounds no more.
///   obs3(maximum(obs1(a), obs2(b)))   →   obs3(maximum(obs3(a), obs3(b)))
void share_ranges_of_extremes(ir::GraphModule& gm);

/// Takes away the observers between a layer whose kernel gives float and an activation that is as fast in
/// float, where the recipe left the activation float for that; where the layer is too small to gain by it,
/// the activation is quantized after all.
///   conv → observer → prelu   →   conv → prelu
void drop_output_observers(ir::GraphModule& gm, Report& report);

/// Channels between two layers that use only a part of the tensor's range are multiplied in the first layer's
/// weight and divided in the second's, where that lowers the expected error.
/// `margin` times the largest value that was seen stays inside of the range.
///   a → relu → observer → b   →   a (rows · s) → relu → observer → b (columns / s)
void equalize_across_layers(ir::GraphModule& gm, std::span<const torch::jit::Module> observers, double margin,
                            Report& report);

/// Multiplications where a float value becomes quantized in front of a layer, or float behind a convolution:
/// as above, where they save much of the error.
///   sqrt → observer → a   →   sqrt → mul(s) → observer → a (columns / s)
///   a → observer → norm   →   a (rows · s) → observer → mul(1 / s) → norm
void equalize_float_values(ir::GraphModule& gm, std::span<const torch::jit::Module> observers, double margin,
                           Report& report);

/// Parameters that are equal in all calls of a layer become one, as they were in the model's file.
void share_parameters(ir::GraphModule& gm);

/// Makes the scales of weights larger where a kernel of the current engine adds pairs of products in 16 bits
/// and these could overflow.
void bound_pair_sums(ir::GraphModule& gm, TargetCpu cpu);

/// Takes what the observers of products have found to their layers, and the observers away.
void take_input_products(ir::GraphModule& gm, std::span<const torch::jit::Module> observers);

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

/// Takes the QConfig away from operators to which `converted`, a mapping given at convert, gives none (K-02).
/// Throws Error(BadConfig) when it changes one.
void apply_convert_mapping(ir::GraphModule& gm, const QConfigMapping& prepared,
                           const QConfigMapping& converted);

/// Operators that `reasons` names (Decision::node) stay float after all: they read what other float operators
/// give without rounding, and their observers go away with K-03. Puts the reasons into the report.
void keep_float(ir::GraphModule& gm, const std::map<std::string, std::string>& reasons, Report& report);

/// Equalization observers → scales of input channels (Q-05 … Q-08): multiplied in front of the layer, or put
/// into the weight and bias of the equalized layer before it; the layer's weight is divided by them.
/// Observers of what is scaled are replaced or appended in `observers`, the calibrated instances of
/// gm.observers.
void convert_equalization(ir::GraphModule& gm, std::vector<torch::jit::Module>& observers);

/// The observers that smooth() put in → scales of channels, with the migration strength `alpha`: the
/// activations are divided by them, in the LayerNorm's own parameters where nobody else reads it, the
/// weights' columns multiplied.
void convert_smoothing(ir::GraphModule& gm, std::vector<torch::jit::Module>& observers, double alpha);

/// Observers → quantize / dequantize pairs; weighted modules of observed patterns get weight qparams (K-01 …
/// K-13).
///   obs(x)   →   dequantize(quantize_per_tensor(x, scale, zero_point, dtype))
void convert(ir::GraphModule& gm, std::span<const ObserverResult> observers, const BackendConfig& backend,
             const PrepareCustomConfig& custom);

/// Clamps that quantizing does by itself go away; others run on quantized values.
///   quantize(clamp(conv))   →   quantize(conv)
void saturate_clamps(ir::GraphModule& gm);

/// Layers whose int8 kernel is slower than the float one stay float, where the engine has no other.
///   conv(dequantize(quantize(x)))   →   conv(x)
void leave_slow_layers(ir::GraphModule& gm, Report& report);

/// Layers whose int8 kernel is slower than the float one are left to the engine's other int8 kernel.
///   quantize(conv(dequantize(x)))   does not become   quantized::conv2d(x)
void take_other_kernels(ir::GraphModule& gm);

/// Activations behind convolutions whose int8 kernel is slower than the float operator stay float.
///   quantize(elu(dequantize(x)))   does not become   quantized::elu(x)
void activate_in_float(ir::GraphModule& gm, Report& report);

/// Small layers between an average of whole maps and its product with them are computed in float, and what
/// lies between them.
///   mul(dequantize(quantize(sigmoid(conv(average)))), x)   →   mul(sigmoid(linear(average)), x)
void gate_in_float(ir::GraphModule& gm, Report& report);

/// Products of maps with what is made of their averages stay float.
///   quantize(mul(dequantize(gate), dequantize(x)))   does not become   quantized::mul(gate, x)
void multiply_in_float(ir::GraphModule& gm, Report& report);

/// Averages of whole maps that recipe best left in float stay there, between quantized operators as well.
///   quantize(mean(dequantize(x)))   does not become   mean(x)
void average_in_float(ir::GraphModule& gm);

/// Averages of images in float by the kernel that is fastest with them.
///   adaptive_avg_pool2d(dequantize(x), 1)   →   avg_pool2d(dequantize(x), x.size()[2:])
void pool_averages(ir::GraphModule& gm);

/// Zero padding before a convolution becomes the convolution's own; asymmetric padding by a larger kernel.
///   conv3x3(pad(x, [0, 1, 0, 1]))   →   conv4x4(x), padding 1
void fold_padding(ir::GraphModule& gm, Report& report);

/// Concatenations of differently quantized tensors become the kernel that requantizes each.
///   quantize(cat([dequantize(a), dequantize(b)]))   →   quantized::cat([a, b])
void requantize_concatenations(ir::GraphModule& gm, Report& report);

/// Says in the report which operators compute with integers, and which no data reached. `prepared` is the
/// graph with the observers that `results` are of.
void explain_calibrated(const ir::GraphModule& prepared, std::span<const ObserverResult> results,
                        Report& report);

/// Operators whose input is quantized at run time → dynamic kernels of the current engine, weights packed
/// (L-09, L-11). What the engine cannot pack becomes float again, with the reason in the report.
///   linear(dequantize(quantize_per_tensor_dynamic(x)))   →   quantized::linear_dynamic(x, packed)
void lower_dynamic(ir::GraphModule& gm, Report& report);

/// The same for recurrent layers and cells: in their modules, quantized operators with packed weights take
/// the place of the float ones.
///   LSTM(dequantize(quantize_per_tensor_dynamic(x)), hx)   →   LSTM'(x, hx)
void lower_recurrent(ir::GraphModule& gm, Report& report);

/// dequantize – operator – quantize → the kernel of the current engine, weights packed (L-01 … L-16). Says in
/// the report which kernel each operator became.
void lower(ir::GraphModule& gm, Report& report);

/// Embeddings whose tables have qparams → lookups in rows of 8, 4 or 2 bits (L-10). Says in the report which
/// kernel each became, and why others stay float.
void lower_embeddings(ir::GraphModule& gm, Report& report);

/// Linear layers with quantized weights and float input → kernels that read int8 or int4 weights, in
/// bfloat16. Says in the report which kernel each became.
///   y = Linear(x)   →   y = _weight_int8pack_mm(bfloat16(x), weight, scales) + bias
void lower_weight_only_linear(ir::GraphModule& gm, Report& report);

/// Matrix products, convolutions and linear layers that stayed float compute in bfloat16, and what keeps the
/// dtype behind them does too; their weights are kept in bfloat16.
///   y = linear(x); z = gelu(y)   →   y = linear(bfloat16(x)); z = float(gelu(y))
void float_in_bfloat16(ir::GraphModule& gm);
/// The output of a linear layer that only float operators read is not rounded, neither behind operators that
/// move it.
///   gelu(dequantize(quantize(linear(x))))   →   gelu(linear(x))
void leave_float_outputs(ir::GraphModule& gm);

/// Linear layers that give float values, and have next to nothing of the network's work, stay float.
///   linear(dequantize(quantize(x)))   →   linear(x), or linear(dequantize(x)) of bytes that a kernel gives
void leave_small_layers(ir::GraphModule& gm, Report& report);

/// Linear layers whose output is not quantized → kernels that multiply in int8 and give float.
void lower_float_outputs(ir::GraphModule& gm, Report& report);

/// Kernels that quantize their input at run time use all of its codes, where they are exact with them on
/// `cpu`.
void widen_dynamic_ranges(ir::GraphModule& gm, TargetCpu cpu);

/// Linear layers that quantize one input at run time become one, which quantizes it once.
///   linear_dynamic(x, q), linear_dynamic(x, k)   →   split(linear_dynamic(x, [q; k]))
void join_linear_layers(ir::GraphModule& gm, Report& report);

/// Float convolutions that slide over one channel → linear layers over its windows. Nothing where the model
/// has no quantized operator.
///   conv1d(x, filters)   →   transpose(linear(unfold(x), filters))
void window_filter_banks(ir::GraphModule& gm, const Report& report);

/// Float convolutions with windowed cosines and sines → torch.stft. Nothing where the model has no quantized
/// operator.
///   conv1d(x, basis)   →   cat([real(stft(x)), imag(stft(x))])
void transform_filter_banks(ir::GraphModule& gm, Report& report);

/// Recurrent cells in float call their operator, without the module's questions about shapes, where it takes
/// them as they are.
///   h = GRUCell(x, h)   →   if dim(x) == 2 and dim(h) == 2: h = gru_cell(x, h, …) else: h = GRUCell(x, h)
void call_cells_directly(ir::GraphModule& gm);

/// Quantized convolutions over signals → the same over images of height one, which keep their layout.
///   quantized::conv1d(x)   →   squeeze(quantized::conv2d(unsqueeze(x, 2)), 2)
void signals_as_images(ir::GraphModule& gm, Report& report);

/// Weights that are computed from parameters alone are packed now, not at every run (L-07).
void fold_packed_weights(ir::GraphModule& gm);

}  // namespace tsq::passes
