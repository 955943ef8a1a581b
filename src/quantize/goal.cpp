// The goal that the options set, and the search for it.

#include "quantize/goal.h"

#include <fmt/format.h>
#include <torch/csrc/jit/api/module.h>
#include <tsq/error.h>

#include <algorithm>
#include <cmath>

#include "pipeline/float_layers.h"
#include "torchscript/kept_state.h"

namespace tsq::detail {
namespace {

AccuracyGoal goal_of(const GoalTask& task, const Prepared& prepared, std::span<const Sample> samples,
                     GoalOutcome& outcome) {
  const QuantizeGoal& goal = task.goal;
  if (goal.min_sqnr) return sqnr_goal(prepared, samples, *goal.min_sqnr, task.calibrated);
  if (goal.min_agreement) return agreement_goal(prepared, samples, *goal.min_agreement, task.decisions);
  const double float_score = goal.score(task.model);
  outcome.float_score = float_score;
  return {.measure = goal.measure,
          .at_least = float_score - goal.max_drop * std::abs(float_score),
          .score = goal.score,
          .of_float = float_score};
}

std::string number(double value) { return fmt::format("{:.4g}", value); }

[[noreturn]] void refuse_unreached(const GoalOutcome& outcome) {
  // What has reached the goal did not when it was made anew.
  std::vector<GoalTrial> trials = outcome.search.trials;
  std::erase_if(trials, [](const GoalTrial& trial) { return trial.reached; });
  if (trials.empty()) trials = outcome.search.trials;
  const bool is_limit = outcome.search.lower_is_better;
  const auto best = is_limit ? std::ranges::min_element(trials, {}, &GoalTrial::score)
                             : std::ranges::max_element(trials, {}, &GoalTrial::score);
  throw Error(
      ErrorCode::BadConfig,
      fmt::format("no model reaches the goal, {} of at {} {}: the best, {}, has {}", outcome.measure,
                  is_limit ? "most" : "least", number(outcome.at_least), best->what, number(best->score)),
      is_limit ? "raise the limit" : "lower the goal");
}

/// The most accurate model within a time.
GoalSearch search_within_time(const GoalTask& task, const Prepared& prepared, GoalOutcome& outcome,
                              const GoalOptions& options) {
  constexpr double kMilliseconds = 1e3;
  const QuantizeGoal& goal = task.goal;
  const LatencyLimit limit{.at_most = *goal.max_latency * (goal.max_latency_is_share ? 1 : kMilliseconds),
                           .is_share = goal.max_latency_is_share};
  outcome.measure = limit.is_share ? "latency as a share of float's" : "latency in ms";
  outcome.at_least = limit.at_most;
  AccuracyGoal fast{
      .measure = outcome.measure,
      .at_least = limit.at_most,
      .score = [&](const torch::jit::Module& model) { return limit.certain(task.timer(model)); },
      .of_float = 1};
  if (!limit.is_share) fast.of_float = limit.of(task.timer(task.model));
  GoalOptions confirmed = options;
  confirmed.confirm_plan = [&](const Plan& plan) { return task.confirm_plan(plan, fast); };
  return reach_latency(prepared, task.backend, limit, task.timer, confirmed);
}

GoalSearch search_for_accuracy(const GoalTask& task, const Prepared& prepared, GoalOutcome& outcome,
                               const GoalOptions& options) {
  const std::vector<Sample> some =
      some_for(torchscript::keeps_state(task.model), task.samples, task.goal.samples);
  const AccuracyGoal goal = goal_of(task, prepared, some, outcome);
  outcome.measure = goal.measure;
  outcome.at_least = goal.at_least;
  GoalOptions confirmed = options;
  confirmed.confirm = [&](const QConfigMapping& mapping) { return task.confirm(mapping, goal); };
  confirmed.settle = [&](const QConfigMapping& mapping) { return task.settle(mapping, goal); };
  confirmed.confirm_plan = [&](const Plan& plan) { return task.confirm_plan(plan, goal); };
  return reach_goal(prepared, task.backend, goal, some, confirmed);
}

}  // namespace

GoalOutcome search_for_goal(const GoalTask& task, const Prepared& prepared, const QuantizeEvents& events) {
  return Steps(events).run("search", [&](const Progress&) {
    GoalOutcome outcome;
    const GoalOptions options{.custom = task.custom,
                              .lowering = task.lowering,
                              .on_trial = events.on_trial,
                              .on_ranking = events.on_ranking};
    outcome.search = task.goal.max_latency ? search_within_time(task, prepared, outcome, options)
                                           : search_for_accuracy(task, prepared, outcome, options);
    if (!outcome.search.reached) refuse_unreached(outcome);
    return outcome;
  });
}

}  // namespace tsq::detail
