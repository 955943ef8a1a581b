#pragma once

#include <torch/csrc/jit/api/module.h>
#include <tsq/goal_search.h>
#include <tsq/left_float.h>
#include <tsq/quantize.h>
#include <tsq/trial.h>

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "trial/elsewhere.h"
#include "trial/referee.h"

namespace tsq::detail {

/// What the loop around the finished model needs.
struct FinishTask {
  const torch::jit::Module& model;  ///< the user's
  uint64_t model_bytes{0};          ///< its file's size
  const BackendConfig& backend;
  QConfigMapping mapping{};
  ConvertOptions convert{};
  LoweringOptions lowering{};
  /// A calibrated model with a mapping.
  std::function<Prepared(const QConfigMapping&)> calibrated{};
  double calibration_seconds{0};            ///< that the calibrated model has taken
  Effort effort{Effort::Normal};            ///< high: the search for what does not pay takes its time
  std::span<const Sample> samples{};        ///< to try it on; none: it is only saved and loaded
  std::vector<NamedDecisions> decisions{};  ///< outputs that the user calls scores
  std::shared_ptr<KnownResults> known{};    ///< of the model, which trials add to
  std::span<const Sample> beside{};         ///< further ones, which show how far the outputs vary
  bool lowers{true};                        ///< otherwise the reference model is the result
  bool times{false};                        ///< whether latency is measured, and decides
  /// Times a model and another on a sample: the first or the longest, whichever gains less. None:
  /// compare_latency.
  std::function<LatencyComparison(const Sample&, const torch::jit::Module&, const torch::jit::Module&,
                                  const LatencyOptions&)>
      timer{};
  /// What makes the model slower or larger than float stays float, and all of it where times are measured
  /// and int8 makes it neither faster nor smaller.
  bool leaves_what_does_not_pay{false};
  bool force{false};  ///< what the trial shows is told, and changes nothing
};

/// A model that has been tried.
struct Finished {
  Reference reference;
  torch::jit::Module module;
  bool is_float_model{false};  ///< nothing is quantized
  Report report{};
  Trial trial{};
  std::optional<LatencyComparison> latency{};
  std::optional<LatencyComparison> optimized_latency{};  ///< the same beside the optimized float model
  /// The task's, with null for the layers that were left float. The reference's plan makes the same model.
  QConfigMapping mapping{};
  std::vector<LeftFloat> left_float{};  ///< empty: `mapping` is the task's
  bool ended_early{false};              ///< the search for what does not pay, by the time that it may take
  std::vector<TargetPrediction> elsewhere{};  ///< what it is predicted to take, also for other targets
};

/// Converts, lowers and tries a calibrated model, and leaves in float what cannot run and, where that is
/// asked for, what makes it slower or larger than float, or gains nothing. Throws Error(Unsupported) for a
/// model that cannot run and cannot be mended.
Finished finish(const FinishTask& task);

/// Measures what operators take in float on a sample, by which plans correct what the profile says, unless
/// the model knows it.
void measure_float_times(Prepared& prepared, const Sample& sample);

/// Says in the report that the search for a goal has left these layers float, but for those that `left_float`
/// explains: the mapping's entries for them are nobody's.
void tell_of_goal(const GoalSearch& search, Finished& finished);

}  // namespace tsq::detail
