#pragma once

#include <c10/core/QEngine.h>
#include <tsq/decisions.h>
#include <tsq/quantized_layer.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "io/samples.h"
#include "pipeline/decisions.h"
#include "pipeline/stage.h"

namespace tsq::detail {

/// A calibrated model, from which models with some layers in float are made without calibrating again.
struct Calibrated {
  Stage stage{};           ///< knows what its observers have found
  ir::Model unobserved{};  ///< its graph without observers, where mappings are tried
  std::vector<QuantizedLayer> layers{};
};

/// Throws Error(Unsupported) for a model with standalone modules.
Calibrated calibrated(const Prepared& prepared);

/// What each layer costs in one float run on a sample: fills `macs` and, where `rounds` is not 0, `seconds`.
void measure_layers(const Prepared& prepared, const Sample& sample, std::size_t rounds,
                    std::vector<QuantizedLayer>& layers);

/// Those of `layers` that have these indices.
std::vector<QuantizedLayer> chosen(std::span<const QuantizedLayer> layers,
                                   std::span<const std::size_t> indices);

/// Nodes to stay float with the reason, when `kept` (indices of layers) have no QConfig: the layers
/// themselves, and what the recipe leaves float then.
std::map<std::string, std::string> float_nodes(const Calibrated& model, std::span<const std::size_t> kept);
/// The same when all layers but one are float.
std::map<std::string, std::string> all_but(const Calibrated& model, std::size_t layer);

/// Whether a report says of a layer that it is quantized.
bool is_quantized(const Report& report, const QuantizedLayer& layer);

/// The calibrated model that converts with these nodes in float, too.
Prepared leaving_float(const Prepared& prepared, std::map<std::string, std::string> nodes);

/// The reference model with these nodes in float, and those that the model leaves float.
Reference with_float_nodes(const Calibrated& model, const BackendConfig& backend,
                           std::map<std::string, std::string> nodes, const ConvertCustomConfig& custom = {});

/// The results of the float model on some samples, with which quantized models are compared.
class FloatOutputs {
 public:
  /// Throws Error(BadData) for a sample that the model refuses, Error(BadModel) when it returns no tensor,
  /// Error(BadConfig) when none of its outputs has a name of `named`.
  FloatOutputs(const torch::jit::Module& model, std::vector<Sample> samples,
               std::vector<NamedDecisions> named = {});

  struct Comparison {
    std::vector<JudgedDecisions> decisions{};  ///< of each output
    /// SQNR of the worst floating-point output, by output_powers; where there is none, and labels are, of the
    /// share of decisions that are others.
    double worst_db{0};
  };
  /// Runs a quantized model, with its engine.
  [[nodiscard]] Comparison compare(const torch::jit::Module& model, at::QEngine engine) const;
  [[nodiscard]] std::size_t samples() const noexcept { return samples_.size(); }
  [[nodiscard]] bool has_floats() const {
    return std::ranges::any_of(powers_, [](const auto& power) { return power.has_value(); });
  }

 private:
  std::vector<Sample> samples_;
  bool keeps_state_;
  std::vector<std::vector<at::Tensor>> wanted_{};
  std::vector<std::string> names_{};  ///< of outputs
  mutable OutputDecisions decisions_;
  std::vector<std::optional<double>> powers_{};  ///< of outputs; none: no floating-point numbers
};

}  // namespace tsq::detail
