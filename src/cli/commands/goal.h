#pragma once

#include <tsq/quantize_model.h>

#include <optional>
#include <string>
#include <vector>

#include "cli/printing/progress.h"
#include "cli/process/model_file.h"
#include "cli/process/session.h"

namespace tsq::cli {

/// The options of `quantize` that set a goal: which layers stay float is searched for then.
struct GoalCommandOptions {
  std::optional<double> min_sqnr{};
  std::optional<double> min_agreement{};
  std::string program{};
  std::string max_latency{};  ///< "12" ms, "0.5x"
  std::optional<double> max_drop{};
  std::string data{};  ///< a file of samples; empty: the calibration data, or what was held back of it
  std::size_t samples{100};
  std::string mapping{};  ///< where the mapping of the model found goes

  [[nodiscard]] bool given() const {
    return min_sqnr || min_agreement || !program.empty() || !max_latency.empty();
  }
};
void add_goal_options(const Command& command, GoalCommandOptions& options);
/// Throws UsageError for options that do not go together.
void check_goal_usage(const GoalCommandOptions& options, bool has_calibration_data);

/// The goal for the library. `model` is what was loaded of the float file, candidates for the program are
/// written beside `output`.
QuantizeGoal quantize_goal(const GoalCommandOptions& options, const ModelFile& model,
                           const std::string& output);

/// Shows what is tried while the search runs, one line at a time: what was tried last, then how far ranking
/// is.
class SearchProgress {
 public:
  explicit SearchProgress(const Session& session) : enabled_(!session.quiet) {}
  void on_trial(const GoalTrial& trial);
  void on_ranking(std::size_t done, std::size_t total);
  void end() { line_.reset(); }

 private:
  bool enabled_;
  bool is_ranking_{false};
  std::optional<ProgressLine> line_{};
};

std::string goal_text(const GoalOutcome& outcome);

}  // namespace tsq::cli
