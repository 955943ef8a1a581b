#pragma once

#include <tsq/qconfig_mapping.h>
#include <tsq/recipe_options.h>

#include <optional>
#include <string_view>

namespace tsq {

/// "fx", "best".
std::string_view to_string(Recipe recipe);
/// Throws Error(BadConfig) with the names that there are.
Recipe recipe_from_name(std::string_view name);

/// "native", "vnni", "without-vnni".
std::string_view to_string(TargetCpu cpu);
/// Throws Error(BadConfig) with the names that there are.
TargetCpu target_cpu_from_name(std::string_view name);

/// "stock", "fused".
std::string_view to_string(LoweringTarget target);
/// Throws Error(BadConfig) with the names that there are.
LoweringTarget lowering_target_from_name(std::string_view name);

/// "nearest", "learned".
std::string_view to_string(WeightRounding rounding);
/// Throws Error(BadConfig) with the names that there are.
WeightRounding weight_rounding_from_name(std::string_view name);

/// "normal", "high".
std::string_view to_string(Effort effort);
/// Throws Error(BadConfig) with the names that there are.
Effort effort_from_name(std::string_view name);

/// The value of smooth_quant in a recipe, with its default. Throws Error(BadConfig) for a number outside of 0
/// to 1.
std::optional<double> migration_strength(const RecipeOptions& options);

/// The margin of cross-layer equalization in a recipe. Throws Error(BadConfig) for a number below 1.
std::optional<double> cross_layer_margin(const RecipeOptions& options);

/// The price of a decibel in a recipe, with its default. Throws Error(BadConfig) for what is no number of at
/// least 0.
double decibel_price(const RecipeOptions& options);

/// The mapping for recipe `best` in static mode: the backend's default one with 8-bit activations and, where
/// the kernels have them, per-channel weights; recurrent layers and embeddings as in dynamic mode. Throws
/// Error(BadConfig) for others than fbgemm, x86, qnnpack and onednn.
QConfigMapping best_qconfig_mapping(std::string_view backend = "x86");
/// The mapping for recipe `best` in dynamic mode: weights have a scale a channel, tables of embeddings 8 bits
/// and a scale a row. Both go with `with_weight_only(table)`, which has rows for every form of an embedding.
QConfigMapping best_dynamic_qconfig_mapping();
/// The mapping for training in recipe `best`: that of best_qconfig_mapping with fake quantize modules. The
/// range of a weight is that of the weight that is rounded, not an average over steps. Throws
/// Error(BadConfig) for others than fbgemm, x86, qnnpack and onednn.
QConfigMapping best_qat_qconfig_mapping(std::string_view backend = "x86");

}  // namespace tsq
