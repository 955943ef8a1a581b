#pragma once

#include "passes/context/pass_context.h"

/// Float or int8, and by which kernel, on the calibrated graph, where an observer stands for the rounding
/// that convert will put in its place. The passes up to read_recurrent_inputs are rules: they write Placement
/// and Reason into records of a draft (draft.h), and take observers out of it. The others carry the plan out.
namespace tsq::passes {

/// Operators around which nothing is quantized (find_islands) stay float.
bool leave_float_islands(ir::Model& model, const PassContext& context);

/// Operators that settle_unreached has left without a range (Reason::NotReached) stay float.
bool leave_unreached(ir::Model& model, const PassContext& context);

/// Norms of samples without the dimension of a batch (Reason::OfSample) stay float, between quantized
/// operators as well: what torch.nn makes of such a sample depends on how the file was made.
bool normalise_in_float(ir::Model& model, const PassContext& context);

/// Takes the QConfig away from operators to which context.convert_mapping gives none (K-02).
/// Throws Error(BadConfig) when it changes one.
bool apply_convert_mapping(ir::Model& model, const PassContext& context);

/// Operators that context.kept_float names (Decision::node) stay float after all: they read what other float
/// operators return without rounding.
bool keep_float(ir::Model& model, const PassContext& context);

/// Operators that have returned or read NaN or infinity in calibration, on the way to an operator that looks
/// for them (isnan, nan_to_num), stay float, and nothing is rounded there.
bool leave_non_finite(ir::Model& model, const PassContext& context);

/// Where the model was calibrated, says in the report which operators compute with integers, which no data
/// reached, and of which ranges NaN and infinity were left out.
bool explain_calibrated(ir::Model& model, const PassContext& context);

/// Observers that convert would not make a quantize node of are removed: those between operators that are all
/// configured not to be quantized (K-03), those of other dtypes than float32, and placeholders. Every
/// observer that is left rounds what it observes.
bool drop_idle_observers(ir::Model& model, const PassContext& context);

/// Observed operators whose row takes the dtypes of their QConfig are Int8, for layers with the weight's
/// among them (K-08, K-09, K-12); all other operators are Float.
bool place_by_table(ir::Model& model, const PassContext& context);

/// Takes away the observers between a layer and the functions, the sum or the product that one primitive of a
/// fused program computes with it.
///   conv → observer → add   →   conv → add
bool join_in_programs(ir::Model& model, const PassContext& context);

/// Takes away the observers of queries, keys and values that a fused program's attention does not multiply
/// as bytes.
///   attention(observer(q), k, v)   →   attention(q, k, v)
bool round_attention(ir::Model& model, const PassContext& context);

/// Layers that read float values keep their weights as they are: no int8 kernel takes them, and
/// rounding would only cost accuracy.
///   linear(x), F.linear(x, observer(w))   →   linear(x), F.linear(x, w)
bool keep_exact_weights(ir::Model& model, const PassContext& context);

/// Layers whose int8 kernel is at fault on this engine and processor (kernels::kernel_faults) stay float.
///   conv_transpose(observer(x))   →   conv_transpose(x)
bool leave_faulty_layers(ir::Model& model, const PassContext& context);

/// Which zero padding before a convolution becomes the convolution's own (Weighted::fold), by the times of
/// the engine's kernels. fold_padding does it.
bool place_padding(ir::Model& model, const PassContext& context);

/// Averages of whole maps that match left in float stay there, between quantized operators as well.
bool average_in_float(ir::Model& model, const PassContext& context);

/// The first of several recurrent layers reads its input without rounding, the others keep their int8
/// weights: what they read are states between -1 and 1 (ModuleCall::float_recurrent_weights).
///   LSTM(x) of 3 layers in int8   →   the first in float, two in int8
bool read_recurrent_inputs(ir::Model& model, const PassContext& context);

/// What takes the least time together with the price of its noise: which operators compute in int8, and which
/// values are rounded (PassContext::noise).
bool choose(ir::Model& model, const PassContext& context);

/// Operators in int8 that every kernel of the engine refuses are placed as Reference, for the reason that the
/// first one gives.
bool leave_refused(ir::Model& model, const PassContext& context);

/// Does what context.plan says, where it is given: before lowering the only pass that writes placements of a
/// calibrated model, and but for equalization and custom modules the only one that takes observers out of it.
/// Throws Error(BadConfig) for a plan of another model, table, target or recipe, and for one that cannot be,
/// naming the operator and the reason.
bool apply_plan(ir::Model& model, const PassContext& context);

/// Throws Error(BadConfig) where the plan that was carried out has an operator in int8 that every kernel of
/// the engine refuses, naming both.
bool check_plan(ir::Model& model, const PassContext& context);

/// Model::unobserved_layers: the layers whose observers are in use and have seen nothing.
bool find_unobserved_layers(ir::Model& model, const PassContext& context);

/// Decision::price: what each operator takes in float and in int8, as its neighbours are placed.
bool price_operators(ir::Model& model, const PassContext& context);

/// Layers in float of gates over images of one point become linear layers, which take a third of the time.
///   mul(sigmoid(conv(average)), x)   →   mul(unsqueeze(sigmoid(linear(flatten(average)))), x)
bool make_gates_linear(ir::Model& model, const PassContext& context);

}  // namespace tsq::passes
