#pragma once

#include <tsq/sensitivity.h>

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cli/configuration.h"
#include "cli/progress.h"
#include "cli/session.h"

namespace tsq::cli {

/// The options of `quantize` that set a goal: which layers stay float is searched for then.
struct GoalCommandOptions {
  std::optional<double> min_sqnr{};
  std::optional<double> min_agreement{};
  std::string program{};
  std::optional<double> max_drop{};
  std::string data{};  ///< a file of samples; empty: the calibration data, or what was held back of it
  std::size_t samples{100};
  std::string mapping{};  ///< where the mapping of the model found goes

  [[nodiscard]] bool given() const { return min_sqnr || min_agreement || !program.empty(); }
  [[nodiscard]] bool is_judged_on_samples() const { return min_sqnr || min_agreement; }
};
void add_goal_options(CLI::App& command, GoalCommandOptions& options);
/// Throws UsageError for options that do not go together.
void check_goal_usage(const GoalCommandOptions& options, bool has_calibration_data);

/// What the search needs to know of the command.
struct GoalTask {
  const GoalCommandOptions& options;
  const std::string& model;   ///< the float file
  const std::string& output;  ///< candidates for the program are written beside it
  ConvertCustomConfig custom{};
  LoweringOptions lowering{};
  std::span<const Sample> calibrated{};  ///< samples that the model was calibrated on, where others judge it
  /// The score of the model that a mapping makes in the way of the command's result.
  std::function<double(const QConfigMapping&, const AccuracyGoal&)> confirm{};
};

/// The search and the goal that it had.
struct GoalOutcome {
  GoalSearch search;
  std::string measure{};
  double at_least{0};
  std::optional<double> float_score{};  ///< of the program

  [[nodiscard]] nlohmann::json to_json() const;
};

/// Throws Error(BadConfig) with the best that was reached when the goal is out of reach.
GoalOutcome search_for_goal(const GoalTask& task, const Prepared& prepared, const BackendConfig& backend,
                            const std::vector<Sample>& samples, Steps& steps, const Session& session);

std::string goal_text(const GoalOutcome& outcome);

}  // namespace tsq::cli
