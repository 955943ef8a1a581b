#pragma once

#include <torch/csrc/jit/api/module.h>

#include <cstddef>
#include <optional>
#include <vector>

#include "pipeline/float_layers.h"

namespace tsq::detail {

using Indices = std::vector<std::size_t>;

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
  /// Fills the layers' multiply-accumulates from one float run.
  void count_work(const Sample& sample);
  /// Work of a layer for comparisons: its multiply-accumulates, and at least 1.
  [[nodiscard]] double work(std::size_t layer) const;
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
};

}  // namespace tsq::detail
