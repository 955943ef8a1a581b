#include "cli/commands/goal.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/script.h>

#include <charconv>
#include <cmath>
#include <filesystem>
#include <functional>
#include <memory>

#include "base/text_table.h"
#include "cli/process/evaluation_program.h"
#include "cli/process/failure.h"
#include "cli/process/options.h"
#include "cli/process/scratch_directory.h"

namespace tsq::cli {
namespace {

/// The directory where an output goes.
std::filesystem::path folder_of(const std::string& output) {
  return std::filesystem::absolute(output).parent_path();
}

/// The program's number for a model. The float model's is that of its own file.
std::function<double(const torch::jit::Module&)> program_score(const std::string& program,
                                                               const ModelFile& model,
                                                               const std::string& output) {
  const auto scratch = std::make_shared<std::optional<ScratchDirectory>>();
  return [program, scratch, folder = folder_of(output), path = model.path,
          float_model = model.module](const torch::jit::Module& module) {
    if (!*scratch) scratch->emplace(folder);
    if (module._ivalue() == float_model._ivalue()) return evaluate_with(program, path, (*scratch)->path());
    const std::filesystem::path file = (*scratch)->path() / "candidate.pt";
    save(module, file.string(), read_extra_files(path));
    return evaluate_with(program, file.string(), (*scratch)->path());
  };
}

std::string number(double value) { return fmt::format("{:.4g}", value); }

/// Seconds, or a share of the float model's time.
struct Latency {
  std::optional<double> at_most{};
  bool is_share{false};
};

/// Of "12", "12ms" and "0.5x"; of an empty text none.
Latency latency_of(const std::string& text) {
  if (text.empty()) return {};
  double number = 0;
  const auto [rest, code] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view unit(rest, static_cast<std::size_t>(text.data() + text.size() - rest));
  const bool is_share = unit == "x" || unit == "×";
  if (code != std::errc() || !(is_share || unit.empty() || unit == "ms") || !(number > 0) ||
      !std::isfinite(number))
    throw UsageError(fmt::format(
        "--max-latency: '{}' is no time; give milliseconds, as in 12, or a share of the float model's time, "
        "as in 0.5x",
        text));
  return {.at_most = is_share ? number : number / 1000, .is_share = is_share};
}

std::string trial_line(const GoalTrial& trial) {
  return fmt::format("{}: {}, {}", trial.what, number(trial.score), trial.reached ? "enough" : "not enough");
}

}  // namespace

void add_goal_options(const Command& command, GoalCommandOptions& options) {
  add_options(
      command,
      {{"--min-sqnr", into(options.min_sqnr), "SQNR of the outputs, against the float model, in dB", "DB"},
       {"--min-agreement", into(options.min_agreement), "Share of the decisions that are as in float, 0 to 1",
        "FRACTION", within(0.0, 1.0)},
       program_input(
           {"--eval", into(options.program),
            "A program that prints a model file's score (higher is better). The path replaces each\n"
            "{}, or comes last; the last number that the program prints is the score",
            "CMD"}),
       {"--max-latency", into(options.max_latency),
        "What a run may take on this machine, in milliseconds (12) or as a share of the float model's\n"
        "time (0.5x): the most accurate model within it",
        "MS|SHAREx"},
       {"--max-drop", into(options.max_drop),
        "How much lower than the float file's the score of --eval may be, as a fraction of it\n"
        "(default: 0.01)",
        "FRACTION", CLI::NonNegativeNumber.description("")},
       {"--samples", into(options.samples), "Use at most this many of them, evenly spread (default: 100)",
        "N", within(1, 100000000)},
       output({"--qconfig-output", into(options.mapping),
               "Also write the QConfigMapping of the result, for --qconfig", "Q.json"})},
      "A goal: the fastest model that reaches an accuracy, or the most accurate one within a time");
}

void check_goal_usage(const GoalCommandOptions& options, bool has_calibration_data) {
  std::vector<std::string> goals;
  if (options.min_sqnr) goals.emplace_back("--min-sqnr");
  if (options.min_agreement) goals.emplace_back("--min-agreement");
  if (!options.program.empty()) goals.emplace_back("--eval");
  if (!options.max_latency.empty()) goals.emplace_back("--max-latency");
  if (goals.size() > 1)
    throw UsageError(fmt::format("{} are two goals; give one of them", fmt::join(goals, " and ")));
  (void)latency_of(options.max_latency);
  if (options.max_drop && options.program.empty())
    throw UsageError("--max-drop applies to the score of a program; give --eval CMD");
  if (!goals.empty() && options.data.empty() && !has_calibration_data)
    throw UsageError(fmt::format("{} needs samples to judge on; give --data DATA.pt", goals.front()));
}

QuantizeGoal quantize_goal(const GoalCommandOptions& options, const ModelFile& model,
                           const std::string& output) {
  const Latency latency = latency_of(options.max_latency);
  return {.min_sqnr = options.min_sqnr,
          .min_agreement = options.min_agreement,
          .score = options.program.empty() ? nullptr : program_score(options.program, model, output),
          .measure = "the program's number",
          .max_drop = options.max_drop.value_or(QuantizeGoal().max_drop),
          .max_latency = latency.at_most,
          .max_latency_is_share = latency.is_share,
          .samples = options.samples};
}

void SearchProgress::on_trial(const GoalTrial& trial) {
  line_.reset();
  line_.emplace(trial_line(trial), enabled_);
  is_ranking_ = false;
}

void SearchProgress::on_ranking(std::size_t done, std::size_t total) {
  if (!is_ranking_) {
    line_.reset();
    line_.emplace("rank layers", enabled_);
  }
  is_ranking_ = true;
  line_->update(done, total);
}

std::string goal_text(const GoalOutcome& outcome) {
  const GoalSearch& search = outcome.search;
  std::string text =
      fmt::format("  goal       {} of at {} {}: {} with {} float layer{}\n", outcome.measure,
                  search.lower_is_better ? "most" : "least", number(outcome.at_least), number(search.score),
                  search.kept.size(), search.kept.size() == 1 ? "" : "s");
  if (outcome.float_score)
    text += fmt::format("             the float file has {}\n", number(*outcome.float_score));
  for (const QuantizedLayer& layer : search.kept) text += fmt::format("  float      {}\n", layer.to_text());
  std::vector<std::vector<std::string>> rows{{"  tried", "score", "asked", ""}};
  for (const GoalTrial& trial : search.trials) {
    rows.push_back({"  " + trial.what, number(trial.score), number(trial.at_least),
                    trial.reached            ? "enough"
                    : search.lower_is_better ? "too much"
                                             : "too little"});
  }
  return text + text_table(rows);
}

}  // namespace tsq::cli
