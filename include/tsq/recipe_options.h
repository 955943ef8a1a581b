#pragma once

#include <memory>
#include <optional>

namespace tsq {

struct MachineProfile;

/// The passes that quantize a model, besides tables and mapping. `Fx` does what PyTorch's FX does. `Best`,
/// the default here and in the command, adds passes of tsq's own that keep the model's accuracy without help
/// (docs/recipes.md).
enum class Recipe { Fx, Best };

/// The processor that the quantized model will run on, as far as kernels depend on it.
enum class TargetCpu {
  Native,       ///< this machine
  Vnni,         ///< multiplies and adds bytes in 32 bits (AVX-512 VNNI)
  WithoutVnni,  ///< adds pairs of products in 16 bits, which saturate (AVX2)
  Amx,          ///< has VNNI, and multiplies tiles of bytes
};

/// What runs the quantized model.
enum class LoweringTarget {
  Stock,  ///< LibTorch's kernels: every LibTorch loads the file
  Fused,  ///< programs on oneDNN, and LibTorch's kernels around them: needs libtsq_runtime
};

/// How convert rounds weights to codes.
enum class WeightRounding {
  Nearest,
  Learned,  ///< up or down, whichever lowers the error of the layer's output over the calibration data
};

/// What recipe `best` may cost.
enum class Effort {
  Low,  ///< weights are rounded to nearest, and the result is tried once, on samples that have calibrated it
  Normal,  ///< steps that cost more than they gain end early, and the trial takes no longer than the rest
  High,    ///< everything is measured on all that there is
};

/// The options of prepare and quantize that say which passes run.
struct RecipeOptions {
  Recipe recipe{Recipe::Best};
  /// Where it is named, the result is the same on every machine, and kernels that are wrong on some
  /// processors are not used; of this machine, those are tried.
  TargetCpu target_cpu{TargetCpu::Native};
  /// What is placed in float or in int8 depends on it.
  LoweringTarget target{LoweringTarget::Stock};
  /// What kernels take on the machine (tsq/machine_profile.h). None: the profile of processors like
  /// `target_cpu`.
  std::shared_ptr<const MachineProfile> machine{};
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
  /// Of recipe `best`: a decibel of noise in the outputs is worth this share of the network's time, at least
  /// 0. By it one decision says what computes in int8, and which values are rounded
  /// (docs/recipes/placement.md). None: 0.005.
  std::optional<double> decibel_price{};
  /// Of a traced model: whether the Python files that its debug information names are read where they are
  /// here, to tell `torch.add(x, y)`, `x.add(y)` and `x + y` apart, which are three things to FX and one
  /// operator in a trace. The result then depends on these files.
  bool python_source{false};
};

}  // namespace tsq
