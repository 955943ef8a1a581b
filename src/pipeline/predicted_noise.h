#pragma once

#include <tsq/quantized_layer.h>

#include <map>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "noise/noise_by_name.h"
#include "pipeline/planner.h"
#include "pipeline/run.h"
#include "pipeline/stage.h"

namespace tsq::detail {

/// What roundings of a calibrated model add to its outputs, in the graph that they are made in. Null where no
/// output holds floating-point numbers. Throws Error(BadData) for samples that the model refuses.
[[nodiscard]] std::shared_ptr<const noise::NoiseByName> noise_of(const Stage& calibrated,
                                                                 std::span<const Sample> samples,
                                                                 Rounding rounding);

/// What plans of a calibrated model add to its outputs, by the noise model. No model is made or run for a
/// plan.
class PredictedNoise {
 public:
  /// Throws Error(BadData) for samples that the model refuses, Error(BadModel) for a model without
  /// floating-point numbers in its outputs.
  PredictedNoise(const Stage& calibrated, std::span<const Sample> samples);

  /// What the rules decide with these nodes (Decision::node) in float, too.
  [[nodiscard]] Plan plan(const std::map<std::string, std::string>& float_nodes) const;
  /// The noise of the output that has most, as a share of the output's power.
  [[nodiscard]] double share(const Plan& plan) const;
  /// Whether a plan has an operator of the layer in int8.
  [[nodiscard]] bool is_quantized(const Plan& plan, const QuantizedLayer& layer) const;

 private:
  Planner planner_;
  std::vector<ir::Node*> operators_;
  std::vector<ir::Node*> observers_;
  std::shared_ptr<const noise::NoiseByName> noise_;
  /// Observers that round once more what another has rounded in the same range, and that one.
  std::unordered_map<const ir::Node*, const ir::Node*> repeated_{};
};

}  // namespace tsq::detail
