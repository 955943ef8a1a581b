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
  const auto& trials = outcome.search.trials;
  const auto best = std::ranges::max_element(trials, {}, &GoalTrial::score);
  throw Error(ErrorCode::BadConfig,
              fmt::format("no model reaches the goal, {} of at least {}: the best, {}, has {}",
                          outcome.measure, number(outcome.at_least), best->what, number(best->score)),
              "lower the goal");
}

}  // namespace

GoalOutcome search_for_goal(const GoalTask& task, const Prepared& prepared, const QuantizeEvents& events) {
  return Steps(events).run("search", [&](const Progress&) {
    GoalOutcome outcome;
    const std::vector<Sample> some =
        some_for(torchscript::keeps_state(task.model), task.samples, task.goal.samples);
    const AccuracyGoal goal = goal_of(task, prepared, some, outcome);
    outcome.measure = goal.measure;
    outcome.at_least = goal.at_least;
    outcome.search =
        reach_goal(prepared, task.backend, goal, some,
                   {.custom = task.custom,
                    .lowering = task.lowering,
                    .confirm = [&](const QConfigMapping& mapping) { return task.confirm(mapping, goal); },
                    .settle = [&](const QConfigMapping& mapping) { return task.settle(mapping, goal); },
                    .confirm_plan = [&](const Plan& plan) { return task.confirm_plan(plan, goal); },
                    .on_trial = events.on_trial,
                    .on_ranking = events.on_ranking});
    if (!outcome.search.reached) refuse_unreached(outcome);
    return outcome;
  });
}

}  // namespace tsq::detail
