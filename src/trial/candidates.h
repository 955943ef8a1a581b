#pragma once

#include <torch/csrc/jit/api/module.h>

#include <cstddef>
#include <optional>
#include <set>
#include <vector>

#include "pipeline/float_layers.h"

namespace tsq::detail {

using Indices = std::vector<std::size_t>;

/// Those that are not among `others`.
Indices without(const Indices& indices, const Indices& others);

/// A model on the way to a file.
struct Made {
  torch::jit::Module module;
  Report report{};
  std::optional<Reference> reference{};  ///< what it was lowered from, where that was made with it
};
/// The reference model itself.
Made unlowered(Reference reference);
Made lowered(Reference reference, const BackendConfig& backend, const LoweringOptions& options);

/// Models that have some layers of a calibrated model in float, out of one calibration.
class Candidates {
 public:
  /// Throws Error(Unsupported) for a model with standalone modules.
  Candidates(const Prepared& prepared, const BackendConfig& backend, const ConvertCustomConfig& custom,
             const LoweringOptions& lowering);

  [[nodiscard]] std::size_t size() const noexcept { return model_.layers.size(); }
  /// Of all layers.
  [[nodiscard]] Indices all() const;
  [[nodiscard]] const std::vector<QuantizedLayer>& layers() const noexcept { return model_.layers; }
  [[nodiscard]] std::vector<QuantizedLayer> layers(const Indices& indices) const;
  /// Fills the layers' multiply-accumulates from one float run, and what follows from them.
  void count_work(const Sample& sample);
  /// What int8 may save with a layer: its share of all layers' multiply-accumulates, and of their weights'
  /// bytes. More than 0; the same for all before it is counted.
  [[nodiscard]] double work(std::size_t layer) const;
  /// The layers of which a report of a model says that they are quantized.
  [[nodiscard]] std::set<std::size_t> int8(const Report& report) const;
  /// The calibrated model that converts with these layers in float.
  [[nodiscard]] Prepared leaving_float(const Indices& kept_float) const;
  /// The reference model with these layers in float.
  [[nodiscard]] Reference reference(const Indices& kept_float) const;
  /// The same, lowered.
  [[nodiscard]] Made make(const Indices& kept_float) const;

 private:
  const Prepared& prepared_;
  BackendConfig backend_;
  ConvertCustomConfig custom_;
  LoweringOptions lowering_;
  Calibrated model_;
  std::vector<double> weight_bytes_;  ///< of each layer
  std::vector<double> work_{};        ///< of each layer
};

}  // namespace tsq::detail
