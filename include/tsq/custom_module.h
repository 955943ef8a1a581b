#pragma once

#include <tsq/pattern.h>
#include <tsq/qconfig.h>

#include <optional>
#include <string>
#include <string_view>

namespace tsq {

/// What a QConfig quantizes. Source: torch.ao.quantization.quant_type.QuantType.
enum class QuantType { Static, Dynamic, WeightOnly };

/// "static", "dynamic" or "weight_only".
std::string_view to_string(QuantType type);

/// Source: torch.ao.quantization.utils.get_quant_type. Throws Error(BadConfig) for dtypes of activation and
/// weight that are of no type.
QuantType get_quant_type(const QConfig& qconfig);

/// A module in TorchScript; one of the three is given.
struct ModuleDefinition {
  std::string file{};     ///< a TorchScript file that holds the module
  std::string source{};   ///< a TorchScript class: "class Observed(Module):\n  weight : Tensor\n  def …"
  std::string archive{};  ///< the bytes of such a file: what prepared files hold in its place

  friend bool operator==(const ModuleDefinition&, const ModuleDefinition&) = default;
};

/// The class whose modules take the places of those of another: one that the program has registered, or one
/// in TorchScript. A module in TorchScript is filled as from_float and from_observed of a Python class do it:
/// its attributes, and those of modules inside, that the module before it has too (by name and type) are
/// copied; then its method `from_float(self)` or `from_observed(self)` is called, where it has one.
/// Quantized modules also get, where they have attributes of these names, `output_scale`,
/// `output_zero_point` and `output_dtype` (numbers) of the observer after them, and beside a tensor `weight`
/// the `weight_scale`, `weight_zero_point` (tensors), `weight_axis` and `weight_dtype` (numbers) that the
/// QConfig's weight observer finds.
struct CustomModule {
  Symbol name{};  ///< of a registered class; of one in TorchScript, the name that other entries know it by
  std::optional<ModuleDefinition> definition{};

  friend bool operator==(const CustomModule&, const CustomModule&) = default;
};

}  // namespace tsq
