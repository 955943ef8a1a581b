#pragma once

#include <tsq/trial.h>
#include <tsq/tried_step.h>

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "cli/process/session.h"

namespace tsq::cli {

/// The options of a step that tries what it is about to write.
struct TrialOptions {
  std::string data{};  ///< samples; empty: the result is only saved and loaded
  bool force{false};
};
void add_trial_options(const Command& command, TrialOptions& options);

/// Lines of the summary.
std::string step_trial_text(const TriedStep& step);
/// Null where there were no samples; {"samples", "sqnr_db", …, "left_float"} otherwise and where something
/// was left out.
nlohmann::json step_trial_json(const TriedStep& step);

}  // namespace tsq::cli
