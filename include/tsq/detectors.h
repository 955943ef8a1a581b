#pragma once

#include <tsq/backend_config.h>
#include <tsq/equalization.h>
#include <tsq/qconfig_mapping.h>
#include <tsq/sample.h>

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace torch::jit {
struct Module;
}

namespace tsq {

/// What a detector looks for. Source: torch/ao/quantization/fx/_model_report/detector.py, whose figures and
/// limits these are.
enum class Detector {
  PerChannel,    ///< a weight with one scale for all channels, where the backend has one for each
  Dynamic,       ///< a linear layer whose output's range differs from sample to sample
  Equalization,  ///< channels that fill the range of a layer's input and columns that fill its weight's
                 ///< unequally
  Outliers       ///< channels of a layer's input with values far beyond all others
};
/// "per channel", "dynamic", "equalization", "outliers".
std::string_view to_string(Detector detector);

/// Limits of the detectors, PyTorch's own by default.
struct DetectorLimits {
  /// A range that is stationary: the mean over samples of its width, divided by that over all of them, is
  /// above (DynamicStaticDetector).
  double stationary{0.5};
  /// sqrt(share of a weight's column in the range of the whole weight / the same of its input's channel), or
  /// its reciprocal, from here on: equalization gains (InputWeightEqualizationDetector, with a threshold of
  /// 0.5; PyTorch advises it for the other channels, whose ranges fit already).
  double equalizes{2};
  /// The largest size of a channel's values over the one that 97.5 % of them do not exceed (OutlierDetector;
  /// PyTorch takes the largest value, and does not see outliers below zero), or over the largest size
  /// that 97.5 % of the channels do not exceed.
  double outlier{3.5};
  /// The share of samples in which a channel has such a ratio at all.
  double of_samples{0.95};
};

/// What a detector has found in one layer.
struct Finding {
  std::string layer{};   ///< "encoder.fc1"
  std::string kernel{};  ///< of the float model: "aten::linear"
  Detector detector{};
  double figure{0};                 ///< what the limit is held against
  double limit{0};                  ///< of DetectorLimits; 1 for per channel
  std::vector<int64_t> channels{};  ///< of the layer's input; empty where all count alike
  bool advises_qconfig{false};      ///< `qconfig` is the advice; else it is to equalize
  MaybeQConfig qconfig{};           ///< for the layer; none: leave it float

  /// "16 of 64 channels have values more than 3.5 times …": one sentence for people, without the advice.
  [[nodiscard]] std::string to_text() const;
  /// What to do about it, for people.
  [[nodiscard]] std::string advice() const;
  [[nodiscard]] nlohmann::json to_json() const;
};

/// Runs the float model on the samples, each as one batch of its own, and looks at its convolutions and
/// linear layers, which `mapping` would quantize for `backend`: PyTorch's ModelReport for TorchScript.
/// Findings are in the order of the flow. Threads may call it at once. Throws Error(BadData) where the model
/// cannot run on a sample.
std::vector<Finding> detect(const torch::jit::Module& model, std::span<const Sample> samples,
                            const QConfigMapping& mapping, const BackendConfig& backend,
                            const DetectorLimits& limits = {});

/// The mapping with what the findings advise for each layer: `tsq quantize --qconfig` takes it. Of several
/// findings of a layer all are heeded; one that leaves it float counts alone.
QConfigMapping advised_qconfigs(QConfigMapping mapping, std::span<const Finding> findings);
/// The layers that they advise to equalize: `tsq quantize --equalization` takes it.
EqualizationMapping advised_equalization(std::span<const Finding> findings);

}  // namespace tsq
