#pragma once

#include <tsq/backend_config.h>
#include <tsq/decisions.h>
#include <tsq/lowering_options.h>
#include <tsq/progress.h>
#include <tsq/quantize.h>
#include <tsq/quantized_layer.h>
#include <tsq/sample.h>

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <vector>

namespace tsq {

/// The accuracy that one layer costs in int8. SQNR is that of the worst output, in dB (OutputTrial::sqnr_db);
/// infinite without a difference.
struct LayerSensitivity {
  QuantizedLayer layer{};
  /// SQNR when this layer alone is int8; of a layer that is so only with layers around it, of the error that
  /// the model with all in int8 has less when it is float.
  double alone_db{0};
  double cumulative_db{0};  ///< SQNR when it and all layers that cost less are int8
  /// Share of the decisions that are as in float when this layer alone is int8, the lowest of several
  /// outputs; none: no output is judged as decisions.
  std::optional<double> alone_agreement{};
};

/// What the layers of a model cost, each by itself and together.
struct Sensitivity {
  std::vector<LayerSensitivity> layers{};  ///< the most costly first
  /// No output has floating-point numbers: all decibels here are 10 log10(1 / s), where s is the share of
  /// decisions that are others than in float. 20 dB: one of a hundred.
  bool is_of_decisions{false};
  double int8_db{0};                       ///< SQNR when all are int8
  std::optional<double> int8_agreement{};  ///< share of the decisions when all are int8
  double float_db{0};  ///< SQNR when none is, which shows the effect of folded batch norms
  /// What gradients say of `int8_db`, of which the layers' figures are multiples (SensitivityOptions::quick).
  std::optional<double> predicted_db{};
  std::size_t samples{0};

  /// The number of most costly layers that must stay float for an SQNR of at least `db`; none when even all
  /// of them are too few.
  [[nodiscard]] std::optional<std::size_t> float_layers_for(double db) const;
  [[nodiscard]] nlohmann::json to_json() const;
};

/// How layers are ranked.
struct SensitivityOptions {
  std::size_t samples{16};                  ///< the number of samples used, evenly spread
  std::vector<NamedDecisions> decisions{};  ///< outputs that are scores, whatever the model tells
  /// Predicts the figures of layers from gradients and from how each value and weight is rounded, in place of
  /// making and running models: one run forwards and backwards, one model in int8, and one in float.
  bool quick{false};
  LoweringOptions lowering{};
  Progress progress{};  ///< models evaluated, of all
};

/// Ranks the layers of a calibrated model by what they cost its output. Calibrates nothing again: each of the
/// 2 n + 1 models for n layers is converted from the same observers and run on the samples. Throws
/// Error(BadData) for samples that the model refuses, Error(BadModel) for a model without tensors in its
/// output, Error(Unsupported) as quantized_layers and lower.
Sensitivity sensitivity(const Prepared& calibrated, const BackendConfig& backend,
                        std::span<const Sample> samples, const SensitivityOptions& options = {});

}  // namespace tsq
