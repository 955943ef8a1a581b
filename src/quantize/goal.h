#pragma once

#include <tsq/quantize_model.h>

#include <functional>
#include <span>

#include "quantize/steps.h"
#include "trial/latency_search.h"

namespace tsq::detail {

/// What the search for a goal needs.
struct GoalTask {
  const torch::jit::Module& model;  ///< the float one
  const QuantizeGoal& goal;
  const BackendConfig& backend;
  std::span<const Sample> samples{};  ///< to judge by
  std::vector<NamedDecisions> decisions{};
  std::span<const Sample> calibrated{};  ///< samples that it was calibrated on, where others judge
  ConvertCustomConfig custom{};
  LoweringOptions lowering{};
  /// The score of the model that a mapping makes in the way of the result.
  std::function<ScoreAnew(const QConfigMapping&, const AccuracyGoal&)> confirm{};
  /// GoalOptions::confirm_plan.
  std::function<ScoreAnew(const Plan&, const AccuracyGoal&)> confirm_plan{};
  LatencyTimer timer{};  ///< of a limit of latency
  /// GoalOptions::settle.
  std::function<ScoreAnew(const QConfigMapping&, const AccuracyGoal&)> settle{};
};

/// Throws Error(BadConfig) with the best that was reached when the goal is out of reach.
GoalOutcome search_for_goal(const GoalTask& task, const Prepared& prepared, const QuantizeEvents& events);

}  // namespace tsq::detail
