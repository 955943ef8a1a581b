#include "cli/goal.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/script.h>
#include <tsq/data.h>
#include <tsq/error.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/evaluation_program.h"
#include "cli/failure.h"
#include "cli/scratch_directory.h"
#include "cli/text_table.h"
#include "pipeline/float_layers.h"

namespace tsq::cli {
namespace {

constexpr double kDefaultDrop = 0.01;

/// The directory where an output goes.
std::filesystem::path folder_of(const std::string& output) {
  return std::filesystem::absolute(output).parent_path();
}

/// The program's number of the float file, less the drop that is allowed.
AccuracyGoal program_goal(const GoalTask& task, const std::shared_ptr<ScratchDirectory>& scratch,
                          double float_score) {
  const double drop = task.options.max_drop.value_or(kDefaultDrop);
  const auto extra_files = read_extra_files(task.model);
  const std::string program = task.options.program;
  return {.measure = "the program's number",
          .at_least = float_score - drop * std::abs(float_score),
          .score = [scratch, program, extra_files](const torch::jit::Module& module) {
            const std::filesystem::path file = scratch->path() / "candidate.pt";
            save(module, file.string(), extra_files);
            return evaluate_with(program, file.string(), scratch->path());
          }};
}

AccuracyGoal goal_of(const GoalTask& task, const Prepared& prepared, std::span<const Sample> samples,
                     GoalOutcome& outcome) {
  const GoalCommandOptions& options = task.options;
  if (options.min_sqnr) return sqnr_goal(prepared, samples, *options.min_sqnr, task.calibrated);
  if (options.min_agreement) return agreement_goal(prepared, samples, *options.min_agreement);
  const auto scratch = std::make_shared<ScratchDirectory>(folder_of(task.output));
  outcome.float_score = evaluate_with(options.program, task.model, scratch->path());
  return program_goal(task, scratch, *outcome.float_score);
}

std::string number(double value) { return fmt::format("{:.4g}", value); }

std::string trial_line(const GoalTrial& trial) {
  return fmt::format("{}: {}, {}", trial.what, number(trial.score), trial.reached ? "enough" : "too little");
}

[[noreturn]] void refuse_unreached(const GoalOutcome& outcome) {
  const auto& trials = outcome.search.trials;
  const auto best = std::ranges::max_element(trials, {}, &GoalTrial::score);
  throw Error(ErrorCode::BadConfig,
              fmt::format("no model reaches the goal, {} of at least {}: the best, {}, has {}",
                          outcome.measure, number(outcome.at_least), best->what, number(best->score)),
              "lower the goal");
}

}  // namespace

void add_goal_options(CLI::App& command, GoalCommandOptions& options) {
  constexpr const char* kGroup = "A goal, which is reached with the fewest and cheapest float layers";
  command.add_option("--min-sqnr", options.min_sqnr, "SQNR of the outputs, against the float model, in dB")
      ->group(kGroup)
      ->type_name("DB");
  command
      .add_option("--min-agreement", options.min_agreement,
                  "Share of rows with the same largest number as in float, 0 to 1")
      ->check(CLI::Range(0.0, 1.0).description(""))
      ->group(kGroup)
      ->type_name("FRACTION");
  command
      .add_option("--eval", options.program,
                  "A program that prints a model file's score (higher is better). The path replaces each\n"
                  "{}, or comes last; the last number that the program prints is the score")
      ->group(kGroup)
      ->type_name("CMD");
  command
      .add_option("--max-drop", options.max_drop,
                  "How much lower than the float file's the score of --eval may be, as a fraction of it\n"
                  "(default: 0.01)")
      ->check(CLI::NonNegativeNumber.description(""))
      ->group(kGroup)
      ->type_name("FRACTION");
  command
      .add_option("--samples", options.samples, "Use at most this many of them, evenly spread (default: 100)")
      ->check(CLI::Range(1, 100000000).description(""))
      ->group(kGroup)
      ->type_name("N");
  command
      .add_option("--qconfig-output", options.mapping,
                  "Also write the QConfigMapping of the result, for --qconfig")
      ->group(kGroup)
      ->type_name("Q.json");
}

void check_goal_usage(const GoalCommandOptions& options, bool has_calibration_data) {
  std::vector<std::string> goals;
  if (options.min_sqnr) goals.emplace_back("--min-sqnr");
  if (options.min_agreement) goals.emplace_back("--min-agreement");
  if (!options.program.empty()) goals.emplace_back("--eval");
  if (goals.size() > 1)
    throw UsageError(fmt::format("{} are two goals; give one of them", fmt::join(goals, " and ")));
  if (options.max_drop && options.program.empty())
    throw UsageError("--max-drop applies to the score of a program; give --eval CMD");
  if (!goals.empty() && options.data.empty() && !has_calibration_data)
    throw UsageError(fmt::format("{} needs samples to judge on; give --data DATA.pt", goals.front()));
}

GoalOutcome search_for_goal(const GoalTask& task, const Prepared& prepared, const BackendConfig& backend,
                            const std::vector<Sample>& samples, Steps& steps, const Session& session) {
  return steps.run("search", [&](const Progress&) {
    GoalOutcome outcome;
    const std::vector<Sample> some = detail::spread(samples, task.options.samples);
    const AccuracyGoal goal = goal_of(task, prepared, some, outcome);
    outcome.measure = goal.measure;
    outcome.at_least = goal.at_least;
    // One line at a time: what was tried last, then how far ranking is.
    auto line = std::make_unique<ProgressLine>("search", !session.quiet);
    bool is_ranking = false;
    GoalOptions options{.custom = task.custom, .lowering = task.lowering};
    options.confirm = [&](const QConfigMapping& mapping) { return task.confirm(mapping, goal); };
    options.on_trial = [&](const GoalTrial& trial) {
      line.reset();
      line = std::make_unique<ProgressLine>(trial_line(trial), !session.quiet);
      is_ranking = false;
    };
    options.on_ranking = [&](std::size_t done, std::size_t total) {
      if (!is_ranking) {
        line.reset();
        line = std::make_unique<ProgressLine>("rank layers", !session.quiet);
      }
      is_ranking = true;
      line->update(done, total);
    };
    outcome.search = reach_goal(prepared, backend, goal, some, options);
    if (!outcome.search.reached) refuse_unreached(outcome);
    return outcome;
  });
}

nlohmann::json GoalOutcome::to_json() const {
  nlohmann::json json = search.to_json();
  json["measure"] = measure;
  json["at_least"] = at_least;
  if (float_score) json["float_score"] = *float_score;
  return json;
}

std::string goal_text(const GoalOutcome& outcome) {
  const GoalSearch& search = outcome.search;
  std::string text = fmt::format("  goal       {} of at least {}: {} with {} float layer{}\n",
                                 outcome.measure, number(outcome.at_least), number(search.score),
                                 search.kept.size(), search.kept.size() == 1 ? "" : "s");
  if (outcome.float_score)
    text += fmt::format("             the float file has {}\n", number(*outcome.float_score));
  for (const QuantizedLayer& layer : search.kept) text += fmt::format("  float      {}\n", layer.to_text());
  std::vector<std::vector<std::string>> rows{{"  tried", "score", ""}};
  for (const GoalTrial& trial : search.trials) {
    rows.push_back({"  " + trial.what, number(trial.score), trial.reached ? "enough" : "too little"});
  }
  return text + text_table(rows);
}

}  // namespace tsq::cli
