#include "cli/commands/step_trial.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/figures.h"
#include "cli/printing/decisions.h"
#include "cli/printing/verdict.h"
#include "cli/process/options.h"

namespace tsq::cli {
namespace {

std::string trial_line(const Trial& trial) {
  if (trial.fault)
    return fmt::format("  warning    written by --force though it fails: {}\n", trial.fault->text);
  if (!trial.sqnr_db) return text_without_sqnr(trial);
  return fmt::format("  SQNR       {}{} on {} sample{} of --data\n{}", sqnr_db_text(*trial.sqnr_db),
                     of_worst_output_text(trial), trial.samples, trial.samples == 1 ? "" : "s",
                     decisions_text(trial));
}

}  // namespace

void add_trial_options(const Command& command, TrialOptions& options) {
  add_options(command,
              {input({"--data", into(options.data),
                      "Samples to try the result on, beside the model that it was made of", "DATA.pt"}),
               {"--force", into(options.force), "Write the result even where it fails beside that model"}});
}

std::string step_trial_text(const TriedStep& step) {
  return trial_line(step.trial) + left_float_text(step.left_float);
}

nlohmann::json step_trial_json(const TriedStep& step) {
  if (step.trial.samples == 0 && !step.trial.fault && step.left_float.empty()) return nullptr;
  nlohmann::json json = step.trial.to_json();
  json["left_float"] = left_float_json(step.left_float);
  return json;
}

}  // namespace tsq::cli
