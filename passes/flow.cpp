#include "passes/flow.h"

#include <tsq/error.h>
#include <tsq/recipe.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "passes/capture/passes.h"
#include "passes/convert/passes.h"
#include "passes/lower/passes.h"
#include "passes/match/passes.h"
#include "passes/numerics/passes.h"
#include "passes/observe/passes.h"
#include "passes/pack/passes.h"
#include "passes/place/passes.h"
#include "passes/plain/passes.h"
#include "passes/ranges/passes.h"
#include "passes/rewrite/passes.h"
#include "passes/train/passes.h"
#include "passes/tune/passes.h"
#include "passes/weights/passes.h"

namespace tsq::passes {
namespace {

/// Models that train are fused whatever the mapping says, as FX's are.
bool is_quantized(const Model& model, const PassContext& context) {
  return model.is_quantized || context.trains;
}
bool may_quantize(const Model&, const PassContext& context) {
  const auto has_qconfig = [](const auto& entries) {
    return std::ranges::any_of(entries, [](const auto& entry) { return entry.second.has_value(); });
  };
  const QConfigMapping& mapping = context.mapping;
  return mapping.global_qconfig() || has_qconfig(mapping.object_type_qconfigs()) ||
         has_qconfig(mapping.module_name_qconfigs()) || has_qconfig(mapping.module_name_regex_qconfigs()) ||
         !mapping.module_name_object_type_order_qconfigs().empty();
}
bool captures_as_fx(const Model& model, const PassContext& context) {
  return context.options.recipe == Recipe::Fx || !may_quantize(model, context);
}
bool in_recipe_best(const Model&, const PassContext& context) {
  return context.options.recipe == Recipe::Best;
}
bool in_recipe_fx(const Model& model, const PassContext& context) { return !in_recipe_best(model, context); }
bool smooths(const Model&, const PassContext& context) {
  return context.equalization.empty() && migration_strength(context.options).has_value();
}
bool equalizes(const Model& model, const PassContext& context) { return !smooths(model, context); }
bool scales_layers(const Model&, const PassContext& context) {
  return cross_layer_margin(context.options).has_value();
}
bool runs_programs(const Model&, const PassContext& context) {
  return context.target.runtime == LoweringTarget::Fused;
}
bool scales_depthwise(const Model& model, const PassContext& context) {
  return runs_programs(model, context) && scales_layers(model, context);
}
bool learns_rounding(const Model&, const PassContext& context) {
  return context.options.weight_rounding == WeightRounding::Learned && context.options.effort != Effort::Low;
}
bool reads_python_source(const Model&, const PassContext& context) { return context.options.python_source; }
bool computes_in_bfloat16(const Model&, const PassContext& context) {
  return context.lowering.float_dtype == c10::ScalarType::BFloat16;
}

bool falls_back(const Model&, const PassContext& context) { return context.table.falls_back_to_libtorch(); }
/// Whether kernels are known that may refuse operators.
bool may_refuse(const Model& model, const PassContext& context) {
  return falls_back(model, context) && context.target.engine != "none";
}
bool checks_plan(const Model& model, const PassContext& context) {
  return context.plan_is_given && may_refuse(model, context);
}

/// What LibTorch's kernels cost says nothing of programs, or of an accelerator's.
bool runs_kernels(const Model& model, const PassContext& context) {
  return !runs_programs(model, context) && falls_back(model, context);
}

/// Kernels of others have times that nobody knows.
bool chooses(const Model& model, const PassContext& context) {
  const bool has_prices = runs_programs(model, context) || falls_back(model, context);
  return has_prices && !context.places_all_in_int8;
}

constexpr bool kOnEachMethod = true;

constexpr FlowRow kFlow[] = {
    // clang-format off
    {"capture", Room::Capture, Step::Fuse, Takes::PostTraining, capture, "the user's module → a flat graph; modules of torch.nn and functions are nodes", false, captures_as_fx},
    {"capture_layers", Room::Capture, Step::Fuse, Takes::Best, capture_layers, "the user's module → a flat graph; attention and parametrizations are taken apart", false, may_quantize},
    {"capture_for_training", Room::Capture, Step::Fuse, Takes::Training, capture_for_training, "the user's module → a flat graph that follows train() and eval()"},
    {"compute_in_float", Room::Capture, Step::Fuse, Takes::PostTraining, compute_in_float, "layers in half, bfloat16 or double → layers in float between casts", false, may_quantize},

    {"read_python_source", Room::Plain, Step::Fuse, Takes::All, read_python_source, "a traced operator → the expression of the Python file that it was traced from, where that file is here", kOnEachMethod, reads_python_source},
    {"lift_recurrent", Room::Plain, Step::Fuse, Takes::PostTraining, lift_recurrent, "aten::lstm with constant weights → LSTM(x, hx)", kOnEachMethod},
    {"untrace", Room::Plain, Step::Fuse, Takes::All, untrace, "what tracing and freezing write → what scripting writes", kOnEachMethod},
    {"normalise", Room::Plain, Step::Fuse, Takes::All, normalise, "aten::add_ → aten::add, one spelling for each operation", kOnEachMethod},
    {"read_written_inputs", Room::Plain, Step::Fuse, Takes::Best, read_written_inputs, "y = relu_(x); linear(x) → y = relu(x); linear(y)", kOnEachMethod},
    {"fold_constants", Room::Plain, Step::Fuse, Takes::Best, fold_constants, "conv(x, weight_norm(v, g)) → conv(x, w)", kOnEachMethod},
    {"fold_literals", Room::Plain, Step::Fuse, Takes::All, fold_literals, "x + torch.tensor([1., 2.]) → x + self.literal", kOnEachMethod},
    {"lift", Room::Plain, Step::Fuse, Takes::PostTraining, lift, "aten::conv2d with constant weights → Conv2d(x)", kOnEachMethod},
    {"lift_embeddings", Room::Plain, Step::Fuse, Takes::PostTraining, lift_embeddings, "aten::embedding of a parameter → Embedding(indices)", kOnEachMethod},
    {"find_embedding_tables", Room::Plain, Step::Fuse, Takes::Training, find_embedding_tables, "modules of embeddings → modules with their tables", kOnEachMethod},
    {"fold_sizes", Room::Plain, Step::Fuse, Takes::Best, fold_sizes, "b, t, d = linear(x).size(); (d // 4) ** -0.5 → 0.125", kOnEachMethod},
    {"take_any_spelling", Room::Plain, Step::Fuse, Takes::EachBest, take_any_spelling, "a row of the table holds for every spelling of its operator"},

    {"find_whether_quantized", Room::Rewrite, Step::Fuse, Takes::All, find_whether_quantized, "whether the mapping quantizes anything; if not, nothing is rewritten or fused", kOnEachMethod},
    {"drop_identities", Room::Rewrite, Step::Fuse, Takes::Best, drop_identities, "Identity(x), Dropout(x) → x", kOnEachMethod, is_quantized},
    {"gather_activations", Room::Rewrite, Step::Fuse, Takes::Best, gather_activations, "x * sigmoid(x) → silu(x)", kOnEachMethod, is_quantized},
    {"gather_layer_norms", Room::Rewrite, Step::Fuse, Takes::Best, gather_layer_norms, "(x - mean(x)) / sqrt(var(x) + eps) → layer_norm(x)", kOnEachMethod, is_quantized},
    {"maximum_of_stack", Room::Rewrite, Step::Fuse, Takes::Best, maximum_of_stack, "max(stack([a, b])) → maximum(a, b)", kOnEachMethod, is_quantized},
    {"fold_arithmetic", Room::Rewrite, Step::Fuse, Takes::Best, fold_arithmetic, "conv(x) * a + b → conv(x) of another weight and bias", kOnEachMethod, is_quantized},
    {"fold_batch_norms", Room::Rewrite, Step::Fuse, Takes::Best, fold_batch_norms, "conv(batch_norm(x)) → conv(x)", kOnEachMethod, is_quantized},
    {"lift_products", Room::Rewrite, Step::Fuse, Takes::PostTraining, lift_products, "addmm(b, x, w.t()) → Linear(x)", kOnEachMethod, is_quantized},
    {"drop_library_assertions", Room::Rewrite, Step::Fuse, Takes::All, drop_library_assertions, "assertions of torch.nn about shapes → nothing", kOnEachMethod, is_quantized},
    {"join_mode_branches", Room::Rewrite, Step::Fuse, Takes::Training, join_mode_branches, "relu(y * 2 if self.training else y) → relu(y * 2) if self.training else relu(y)", kOnEachMethod, is_quantized},
    {"keep_writes", Room::Rewrite, Step::Fuse, Takes::All, keep_writes, "y[:, 0] = 7; linear(y) → y[:, 0] = 7; linear(alias(y))", kOnEachMethod, is_quantized},

    {"swap_around_for_training", Room::Match, Step::Fuse, Takes::Training, swap_around_for_training, "layers of a standalone module that the mapping around it trains → their training form", kOnEachMethod, is_quantized},
    {"fuse", Room::Match, Step::Fuse, Takes::PostTraining, fuse, "relu(batch_norm(conv(x))) → ConvReLU2d(x)", kOnEachMethod, is_quantized},
    {"fuse_for_training", Room::Match, Step::Fuse, Takes::Training, fuse_for_training, "relu(batch_norm(conv(x))) → ConvBnReLU2d(x)", kOnEachMethod, is_quantized},
    {"join_methods", Room::Match, Step::Fuse, Takes::All, join_methods, "methods beside forward → blocks of one graph"},

    {"check_quantized_indexes", Room::Match, Step::Match, Takes::All, check_quantized_indexes, "refuses input_quantized_idxs that forward has not"},
    {"find_unmatched_entries", Room::Match, Step::Match, Takes::All, find_unmatched_entries, "entries of the mapping that no operator looks up, for the report"},
    {"swap_for_training", Room::Match, Step::Match, Takes::Training, swap_for_training, "ConvBnReLU2d(x) → qat.ConvBnReLU2d(x)", false, in_recipe_fx},
    {"match", Room::Match, Step::Match, Takes::All, match, "each operator → its QConfig, and the row of the table that it matches"},
    {"leave_unswapped", Room::Match, Step::Match, Takes::EachBest, leave_unswapped, "layers without a reference module in the table stay float"},
    {"absorb_clamps", Room::Match, Step::Match, Takes::EachBest, absorb_clamps, "{conv}, {hardtanh} → {conv, hardtanh}"},
    {"leave_float_operators", Room::Match, Step::Match, Takes::EachBest, leave_float_operators, "operators whose kind int8 does not suit stay float"},
    {"find_islands", Room::Match, Step::Match, Takes::EachBest, find_islands, "operators that do not lie between quantized ones are not observed"},
    {"separate_concatenations", Room::Match, Step::Match, Takes::EachBest, separate_concatenations, "concatenations of values that others read have a range of their own"},
    {"separate_scalar_arithmetic", Room::Match, Step::Match, Takes::EachBest, separate_scalar_arithmetic, "sums and products with a number have a range of their own"},
    {"mark_for_training", Room::Match, Step::Match, Takes::Training, mark_for_training, "layers whose weights convert will round → layers of rounded weights", false, in_recipe_best},

    {"observe", Room::Observe, Step::Observe, Takes::All, observe, "conv(x) → observer(conv(observer(x)))"},
    {"observe_custom_modules", Room::Observe, Step::Observe, Takes::All, observe_custom_modules, "observer(Custom(x)) → observer(ObservedCustom(x))"},
    {"equalize", Room::Observe, Step::Observe, Takes::PostTraining, equalize, "observer(x) → equalization_observer(observer(x))"},
    {"smooth", Room::Observe, Step::Observe, Takes::PostTraining, smooth, "linear(observer(layer_norm(x))) → linear(channel_observer(observer(layer_norm(x))))", false, smooths},
    {"leave_conditions", Room::Observe, Step::Observe, Takes::Training, leave_conditions, "observer(x > 0) → x > 0"},
    {"join_branches", Room::Observe, Step::Observe, Takes::All, join_branches, "observers at the ends of an if's branches → one observer in both"},
    {"observe_fixed_inputs", Room::Observe, Step::Observe, Takes::Best, observe_fixed_inputs, "sigmoid(fixed(x)) → sigmoid(observer(x))"},
    {"observe_layer_inputs", Room::Observe, Step::Observe, Takes::Best, observe_layer_inputs, "conv(d['out']) → conv(observer(d['out']))"},
    {"observe_attention", Room::Observe, Step::Observe, Takes::Best, observe_attention, "attention(q, k, v) → attention(observer(q), observer(k), observer(v))", false, runs_programs},
    {"observe_channels", Room::Observe, Step::Observe, Takes::Best, observe_channels, "conv(observer(x)) → conv(channel_observer(observer(x)))"},
    {"observe_input_products", Room::Observe, Step::Observe, Takes::Best, observe_input_products, "conv(observer(x)) → the same, with an observer of im2col(x)'s products", false, learns_rounding},
    {"clamp_observed", Room::Observe, Step::Observe, Takes::Best, clamp_observed, "hardswish(observer(x)) → hardswish(observer(clamp(x)))"},
    {"observe_where_read", Room::Observe, Step::Observe, Takes::All, observe_where_read, "observers of values that may not be there → in front of their readers"},
    {"observe_branches", Room::Observe, Step::Observe, Takes::Best, observe_branches, "observers of one range at the ends of branches → the same, and whether samples came there"},
    {"make_observers", Room::Observe, Step::Observe, Takes::All, make_observers, "observers' specifications → observers"},
    {"number_values", Room::Observe, Step::Observe, Takes::PostTraining, number_values, "values → numbers, by which what calibration sees of them is kept"},

    {"check_trained", Room::Train, Step::Settle, Takes::Training, check_trained, "refuses NaN and infinity that training has left"},
    {"finish_training", Room::Train, Step::Settle, Takes::Training, finish_training, "qat.ConvBnReLU2d(x) → ConvReLU2d(x) with the ranges that training found"},

    {"settle_methods", Room::Ranges, Step::Settle, Takes::All, settle_methods, "methods that saw no data take the ranges of the same values in forward"},
    {"batch_inputs", Room::Ranges, Step::Settle, Takes::All, batch_inputs, "conv(x) of one sample → squeeze(conv(unsqueeze(x, 0)), 0)"},
    {"settle_unreached", Room::Ranges, Step::Settle, Takes::PostTraining, settle_unreached, "branches that no sample entered → the ranges of the same values elsewhere, or none"},
    {"take_facts", Room::Ranges, Step::Settle, Takes::PostTraining, take_facts, "what observers saw → what is known of their values"},
    {"know_dtypes", Room::Ranges, Step::Settle, Takes::Best, know_dtypes, "linear(y, w.to(x.dtype)), x was float32 → linear(y, w.to(float32))"},
    {"drop_observed_clamps", Room::Ranges, Step::Settle, Takes::Best, drop_observed_clamps, "hardswish(observer(clamp(x))) → hardswish(observer(x))"},
    {"take_channel_statistics", Room::Ranges, Step::Settle, Takes::Best, take_channel_statistics, "conv(channel_observer(x)) → conv(x) that knows its channels"},
    {"take_input_products", Room::Ranges, Step::Settle, Takes::Best, take_input_products, "observers of products → layers that know their inputs' products"},
    {"share_ranges_of_extremes", Room::Ranges, Step::Settle, Takes::Best, share_ranges_of_extremes, "maximum(observer1(a), observer2(b)) → maximum(observer3(a), observer3(b))"},

    {"leave_float_islands", Room::Place, Step::Plan, Takes::EachBest, leave_float_islands, "operators that do not lie between quantized ones stay float"},
    {"leave_unreached", Room::Place, Step::Plan, Takes::All, leave_unreached, "operators without ranges stay float"},
    {"normalise_in_float", Room::Place, Step::Plan, Takes::All, normalise_in_float, "norms of samples without a batch stay float"},
    {"apply_convert_mapping", Room::Place, Step::Plan, Takes::All, apply_convert_mapping, "operators to which convert's mapping gives no QConfig stay float"},
    {"keep_float", Room::Place, Step::Plan, Takes::All, keep_float, "operators that the caller names stay float"},
    {"leave_non_finite", Room::Place, Step::Plan, Takes::EachBest, leave_non_finite, "operators that hand on NaN to isnan or the like stay float"},
    {"explain_calibrated", Room::Place, Step::Plan, Takes::All, explain_calibrated, "what no data reached, and what is not finite, for the report"},
    {"drop_idle_observers", Room::Place, Step::Plan, Takes::All, drop_idle_observers, "observers between float operators → nothing"},
    {"place_by_table", Room::Place, Step::Plan, Takes::All, place_by_table, "operators whose row takes their QConfig → int8"},
    {"join_in_programs", Room::Place, Step::Plan, Takes::Best, join_in_programs, "relu(observer(add(observer(conv(x)), y))) → relu(add(conv(x), y))", false, runs_programs},
    {"round_attention", Room::Place, Step::Plan, Takes::Best, round_attention, "attention(observer(q), k, v) → attention(q, k, v)", false, runs_programs},
    {"keep_exact_weights", Room::Place, Step::Plan, Takes::Best, keep_exact_weights, "layers that read float values stay float"},
    {"leave_faulty_layers", Room::Place, Step::Plan, Takes::Best, leave_faulty_layers, "layers whose int8 kernel is at fault stay float", false, runs_kernels},
    {"place_padding", Room::Place, Step::Plan, Takes::Best, place_padding, "which padding becomes a convolution's own"},
    {"choose", Room::Place, Step::Plan, Takes::Best, choose, "the least time with the price of noise → operators in int8, values that are rounded", false, chooses},
    {"average_in_float", Room::Place, Step::Plan, Takes::Best, average_in_float, "averages of whole maps stay float", false, runs_kernels},
    {"read_recurrent_inputs", Room::Place, Step::Plan, Takes::Best, read_recurrent_inputs, "the first of several recurrent layers stays float; programs read inputs unrounded"},
    {"leave_refused", Room::Place, Step::Plan, Takes::All, leave_refused, "operators that every int8 kernel refuses compute between roundings", false, may_refuse},

    {"apply_plan", Room::Place, Step::Place, Takes::All, apply_plan, "what the plan says → placements, and observers of the values that are rounded"},
    {"check_plan", Room::Place, Step::Place, Takes::All, check_plan, "refuses a plan by which an operator is in int8 that no kernel takes", false, checks_plan},
    {"find_unobserved_layers", Room::Place, Step::Place, Takes::All, find_unobserved_layers, "layers whose observers are in use and saw nothing, for the report"},
    {"price_operators", Room::Place, Step::Place, Takes::PostTraining, price_operators, "what operators take in float and in int8, for the report"},
    {"make_gates_linear", Room::Place, Step::Place, Takes::Best, make_gates_linear, "mul(sigmoid(conv(average)), x) → mul(unsqueeze(sigmoid(linear(flatten(average)))), x)", false, runs_kernels},

    {"equalize_across_layers", Room::Numerics, Step::Convert, Takes::Best, equalize_across_layers, "a, relu, b → a (rows · s), relu, b (columns / s)", false, scales_layers},
    {"equalize_float_values", Room::Numerics, Step::Convert, Takes::Best, equalize_float_values, "linear(observer(sqrt(x))) → linear(observer(mul(sqrt(x), s)))", false, scales_layers},
    {"scale_depthwise_inputs", Room::Numerics, Step::Convert, Takes::Best, scale_depthwise_inputs, "hardswish, observer, depthwise → hardswish, mul(s), observer, depthwise (columns / s)", false, scales_depthwise},
    {"convert_smoothing", Room::Numerics, Step::Convert, Takes::PostTraining, convert_smoothing, "linear(channel_observer(layer_norm(x))) → linear (columns · s) of layer_norm (/ s)", false, smooths},
    {"convert_equalization", Room::Numerics, Step::Convert, Takes::PostTraining, convert_equalization, "equalization_observer(x) → mul(x, s)", false, equalizes},
    {"find_qparams", Room::Numerics, Step::Convert, Takes::All, find_qparams, "observers → their ranges"},
    {"keep_before_rounding", Room::Numerics, Step::Convert, Takes::All, keep_before_rounding, "a copy of the graph, to measure rounding with"},

    {"fold_cast_weights", Room::Convert, Step::Convert, Takes::Best, fold_cast_weights, "linear(x, observer(w.to(float32))) → linear(x, observer(w'))"},
    {"quantize_weights", Room::Convert, Step::Convert, Takes::All, quantize_weights, "Conv2d(x) → reference Conv2d(x)"},
    {"quantize_custom_modules", Room::Convert, Step::Convert, Takes::All, quantize_custom_modules, "observer(ObservedCustom(x)) → QuantizedCustom(x)"},
    {"convert", Room::Convert, Step::Convert, Takes::All, convert, "observer(x) → dequantize(quantize_per_tensor(x))"},
    {"dequantize_after_branches", Room::Convert, Step::Convert, Takes::All, dequantize_after_branches, "dequantize at the end of both branches → dequantize after the if"},

    {"round_weights", Room::Weights, Step::Convert, Takes::Best, round_weights, "weights → the codes that lower the error of the layer's output"},
    {"fold_padding", Room::Weights, Step::Convert, Takes::Best, fold_padding, "conv3x3(pad(x)) → conv4x4(x)"},
    {"bound_pair_sums", Room::Weights, Step::Convert, Takes::EachBest, bound_pair_sums, "weights whose sums could overflow → smaller codes"},
    {"bound_biases", Room::Weights, Step::Convert, Takes::EachBest, bound_biases, "weights of which the bias would leave 32 bits → larger scales", false, runs_kernels},
    {"tie_tables", Room::Weights, Step::Convert, Takes::Best, tie_tables, "a table and a layer of one weight → of one code"},
    {"tie_transposes", Room::Weights, Step::Convert, Takes::Best, tie_transposes, "linear(x, w), linear(y, wᵀ) → linear(x, w), linear(y, rounded(w)ᵀ)"},
    {"correct_biases", Room::Weights, Step::Convert, Takes::Best, correct_biases, "biases → biases without the mean error of the weights"},
    {"share_parameters", Room::Weights, Step::Convert, Takes::EachBest, share_parameters, "equal parameters of one layer's calls → one parameter"},
    {"report_pair_sums", Room::Weights, Step::Convert, Takes::All, report_pair_sums, "whether 16-bit sums can overflow, for the report"},
    {"correct_mean_errors", Room::Weights, Step::Convert, Takes::All, correct_mean_errors, "biases → biases without the mean error over the samples"},

    {"keep_reference", Room::Lower, Step::Lower, Takes::All, keep_reference, "operators that the caller names get no kernel"},
    {"saturate_clamps", Room::Lower, Step::Lower, Takes::EachBest, saturate_clamps, "quantize(clamp(conv(x))) → quantize(conv(x))"},
    {"lower_registered", Room::Lower, Step::Lower, Takes::All, lower_registered, "operators of registered rows → their kernels"},
    {"cut_programs", Room::Lower, Step::Lower, Takes::All, cut_programs, "regions of int8 and float operators → tsq::run(program, inputs)", false, runs_programs},
    {"requantize_concatenations", Room::Lower, Step::Lower, Takes::EachBest, requantize_concatenations, "quantize(cat([dequantize(a), dequantize(b)])) → quantized::cat([a, b])", false, falls_back},
    {"lower_dynamic", Room::Lower, Step::Lower, Takes::All, lower_dynamic, "linear(dequantize(quantize_dynamic(x))) → quantized::linear_dynamic(x, packed)", false, falls_back},
    {"lower_recurrent", Room::Lower, Step::Lower, Takes::All, lower_recurrent, "LSTM(x) → LSTM of packed weights", false, falls_back},
    {"lower_static", Room::Lower, Step::Lower, Takes::All, lower_static, "quantize(conv(dequantize(x))) → quantized::conv2d(x, packed)", false, falls_back},
    {"lower_float_outputs", Room::Lower, Step::Lower, Takes::EachBest, lower_float_outputs, "linear(dequantize(x)) → a kernel that returns float", false, falls_back},
    {"lower_embeddings", Room::Lower, Step::Lower, Takes::All, lower_embeddings, "Embedding(indices) → quantized::embedding_byte(packed, indices)", false, falls_back},
    {"hold_tied_tables_once", Room::Lower, Step::Lower, Takes::All, hold_tied_tables_once, "a packed weight with the codes of a table → made of the table at load"},
    {"lower_weight_only_linear", Room::Lower, Step::Lower, Takes::All, lower_weight_only_linear, "Linear(x) → _weight_int8pack_mm(x, weight, scales)", false, falls_back},

    {"pool_averages", Room::Tune, Step::Lower, Takes::EachBest, pool_averages, "adaptive_avg_pool2d(x, 1) → avg_pool2d(x, size)"},
    {"widen_dynamic_ranges", Room::Tune, Step::Lower, Takes::EachBest, widen_dynamic_ranges, "7-bit dynamic inputs → 8-bit ones, where the processor is exact"},
    {"join_linear_layers", Room::Tune, Step::Lower, Takes::EachBest, join_linear_layers, "linear_dynamic(x, q), linear_dynamic(x, k) → split(linear_dynamic(x, [q; k]))"},
    {"transform_filter_banks", Room::Tune, Step::Lower, Takes::EachBest, transform_filter_banks, "conv1d(x, windowed cosines and sines) → stft(x)"},
    {"window_filter_banks", Room::Tune, Step::Lower, Takes::EachBest, window_filter_banks, "conv1d(x, filters) → linear(unfold(x), filters)"},
    {"call_cells_directly", Room::Tune, Step::Lower, Takes::EachBest, call_cells_directly, "GRUCell(x, h) → aten::gru_cell(x, h)"},
    {"signals_as_images", Room::Tune, Step::Lower, Takes::EachBest, signals_as_images, "quantized::conv1d(x) → quantized::conv2d(x) of height one"},
    {"batch_dynamic_inputs", Room::Tune, Step::Lower, Takes::EachBest, batch_dynamic_inputs, "linear_dynamic(x) of one sample → of a batch of one"},
    {"shape_empty_results", Room::Tune, Step::Lower, Takes::All, shape_empty_results, "linear(x) whose kernel loses the dimensions of empty tensors → unflatten(linear(x))", false, falls_back},
    {"float_in_bfloat16", Room::Tune, Step::Lower, Takes::All, float_in_bfloat16, "float operators → the same in bfloat16", false, computes_in_bfloat16},

    {"view_any_layout", Room::Pack, Step::Lower, Takes::All, view_any_layout, "view(dequantize(y)) → reshape(dequantize(y))"},
    {"explain_unlowered", Room::Pack, Step::Lower, Takes::All, explain_unlowered, "why an operator has no kernel, for the report"},
    {"drop_unread_roundings", Room::Pack, Step::Lower, Takes::Best, drop_unread_roundings, "linear(dequantize(quantize(x))) → linear(x)", false, falls_back},
    {"round_constants", Room::Pack, Step::Lower, Takes::All, round_constants, "dequantize(quantize(constant)) → the rounded constant"},
    {"fold_packed_weights", Room::Pack, Step::Lower, Takes::All, fold_packed_weights, "weights computed from parameters → packed weights"},
    {"hold_weights_once", Room::Pack, Step::Lower, Takes::All, hold_weights_once, "packed params of one weight, which saving would copy → packed of it at load"},
    {"count_dimensions", Room::Pack, Step::Lower, Takes::All, count_dimensions, "dim(conv(x)) → len(size(conv(x)))"},
    // clang-format on
};

}  // namespace

std::string_view to_string(Room room) {
  constexpr std::array<std::string_view, 14> kNames{"capture", "plain",  "rewrite", "match",    "observe",
                                                    "train",   "ranges", "place",   "numerics", "convert",
                                                    "weights", "lower",  "tune",    "pack"};
  return kNames.at(static_cast<std::size_t>(room));
}

std::span<const FlowRow> flow() { return kFlow; }

bool is_taken(const FlowRow& row, const Model& model, const PassContext& context) {
  if (row.when != nullptr && !row.when(model, context)) return false;
  const bool is_best = context.options.recipe == Recipe::Best;
  switch (row.takes) {
    case Takes::All:
      return true;
    case Takes::PostTraining:
      return !context.trains;
    case Takes::Training:
      return context.trains;
    case Takes::Best:
      return !context.trains && is_best;
    case Takes::EachBest:
      return is_best;
  }
  return false;
}

std::size_t run_row(const FlowRow& row, Model& model, const PassContext& context) {
  try {
    std::size_t changes = row.run(model, context) ? 1 : 0;
    if (!row.on_each_method || !model.opens_methods) return changes;
    for (ir::Method& method : model.methods) {
      std::swap(model.graph, method.graph);
      changes += row.run(model, context) ? 1 : 0;
      std::swap(model.graph, method.graph);
    }
    return changes;
  } catch (const Error& error) {
    throw error.in_pass(std::string(row.name));
  }
}

}  // namespace tsq::passes
