#pragma once

#include <tsq/qconfig_mapping.h>

#include <optional>
#include <string_view>

namespace tsq {

/// The passes that quantize a model, besides tables and mapping. `Fx` does what PyTorch's FX does. `Best`,
/// the default here and in the command, adds passes of tsq's own that keep the model's accuracy without help
/// (docs/recipes.md).
enum class Recipe { Fx, Best };

/// "fx", "best".
std::string_view to_string(Recipe recipe);
/// Throws Error(BadConfig) with the names that there are.
Recipe recipe_from_name(std::string_view name);

/// The processor that the quantized model will run on, as far as kernels depend on it.
enum class TargetCpu {
  Native,       ///< this machine
  Vnni,         ///< multiplies and adds bytes in 32 bits (AVX-512 VNNI)
  WithoutVnni,  ///< adds pairs of products in 16 bits, which saturate
};
/// "native", "vnni", "without-vnni".
std::string_view to_string(TargetCpu cpu);
/// Throws Error(BadConfig) with the names that there are.
TargetCpu target_cpu_from_name(std::string_view name);

/// What runs the quantized model.
enum class LoweringTarget {
  Stock,  ///< LibTorch's kernels: every LibTorch loads the file
  Fused,  ///< programs on oneDNN, and LibTorch's kernels around them: needs libtsq_runtime
};
/// "stock", "fused".
std::string_view to_string(LoweringTarget target);
/// Throws Error(BadConfig) with the names that there are.
LoweringTarget lowering_target_from_name(std::string_view name);

/// How convert rounds weights to codes.
enum class WeightRounding {
  Nearest,
  Learned,  ///< up or down, whichever lowers the error of the layer's output over the calibration data
};
/// "nearest", "learned".
std::string_view to_string(WeightRounding rounding);
/// Throws Error(BadConfig) with the names that there are.
WeightRounding weight_rounding_from_name(std::string_view name);

/// What recipe `best` may cost.
enum class Effort {
  Normal,  ///< steps that cost more than they gain end early, and the trial takes no longer than the rest
  High,    ///< everything is measured on all that there is
};
/// "normal", "high".
std::string_view to_string(Effort effort);
/// Throws Error(BadConfig) with the names that there are.
Effort effort_from_name(std::string_view name);

/// The options of prepare and quantize that say which passes run.
struct RecipeOptions {
  Recipe recipe{Recipe::Best};
  /// Where it is named, the result is the same on every machine, and kernels that are wrong on some
  /// processors are not used; of this machine, those are tried.
  TargetCpu target_cpu{TargetCpu::Native};
  /// What is placed in float or in int8 depends on it.
  LoweringTarget target{LoweringTarget::Stock};
  /// The migration strength α of SmoothQuant, 0 to 1: how much of the activations' outliers goes into the
  /// weights of linear layers after a LayerNorm. None: 0.5 in recipe `best`, no smoothing in `fx`. Source:
  /// Xiao et al., "SmoothQuant" (2023), equation 4.
  std::optional<double> smooth_quant{};
  /// Of recipe `best`: channels between two layers are scaled to fill the tensor's range, with room for this
  /// many times their largest calibrated value, at least 1. None: 2. Source: Nagel et al., "Data-Free
  /// Quantization Through Weight Equalization and Bias Correction" (2019), section 4.1.
  std::optional<double> cross_layer_margin{};
  /// Of recipe `best`. Source of Learned: Nagel et al., "Up or Down?" (2020), section 3; Frantar et al.,
  /// "GPTQ" (2022).
  WeightRounding weight_rounding{WeightRounding::Learned};
  Effort effort{Effort::Normal};  ///< of recipe `best`
  /// Of a traced model: whether the Python files that its debug information names are read where they are
  /// here, to tell `torch.add(x, y)`, `x.add(y)` and `x + y` apart, which are three things to FX and one
  /// operator in a trace. The result then depends on these files.
  bool python_source{false};
};

/// The value of smooth_quant in a recipe, with its default. Throws Error(BadConfig) for a number outside of 0
/// to 1.
std::optional<double> migration_strength(const RecipeOptions& options);

/// The margin of cross-layer equalization in a recipe. Throws Error(BadConfig) for a number below 1.
std::optional<double> cross_layer_margin(const RecipeOptions& options);

/// The mapping for recipe `best` in static mode: the backend's default one with 8-bit activations and, where
/// the kernels have them, per-channel weights; recurrent layers and embeddings as in dynamic mode. Throws
/// Error(BadConfig) for others than fbgemm, x86, qnnpack and onednn.
QConfigMapping best_qconfig_mapping(std::string_view backend = "x86");
/// The mapping for recipe `best` in dynamic mode: weights have a scale a channel, tables of embeddings 8 bits
/// and a scale a row. Both go with `with_weight_only(table)`, which has rows for every form of an embedding.
QConfigMapping best_dynamic_qconfig_mapping();

}  // namespace tsq
