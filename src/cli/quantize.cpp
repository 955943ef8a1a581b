#include <fmt/format.h>
#include <torch/script.h>
#include <tsq/data.h>
#include <tsq/error.h>

#include <cmath>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "backends/kernels/engine.h"
#include "cli/commands.h"
#include "cli/configuration.h"
#include "cli/failure.h"
#include "cli/goal.h"
#include "cli/model_file.h"
#include "cli/output_files.h"
#include "cli/progress.h"
#include "cli/summary.h"
#include "cli/text_table.h"
#include "cli/verdict.h"
#include "torchscript/renamed_methods.h"
#include "trial/finish.h"

namespace tsq::cli {
namespace {

constexpr const char* kQuantizeSummary =
    "Quantize a float model: prepare, calibrate, convert and lower at once";
constexpr const char* kQuantizeExamples =
    "  tsq quantize model.pt --calib data.pt --output model.int8.pt\n"
    "  tsq quantize model.pt --calib data.npy --backend fbgemm --output model.int8.pt --report report.json\n"
    "  tsq quantize model.pt --calib data.pt --qconfig q.json --backend-config b.json --output "
    "model.int8.pt\n"
    "  tsq quantize lstm.pt --mode dynamic --output lstm.int8.pt\n"
    "  tsq quantize bag.pt --mode weight_only --bits 4 --output bag.int4.pt\n"
    "  tsq quantize model.pt --calib data.pt --min-agreement 0.99 --output model.int8.pt\n"
    "  tsq quantize model.pt --calib data.pt --eval './accuracy.py {} test/' --output model.int8.pt\n\n"
    "Calibration data is a list of samples, each a tensor or a tuple of forward's arguments, from torch.save "
    "or\n"
    "torch::pickle_save; or .npy/.npz whose first axis counts samples, each then a batch of one. Some 100 "
    "samples\n"
    "like those of real use are enough.\n\n"
    "The result loads with torch::jit::load in any LibTorch; set the engine first, as tsq::load does:\n"
    "  at::globalContext().setQEngine(at::QEngine::X86);";

struct QuantizeOptions {
  std::string model{};
  std::string calib{};
  std::string output{};
  std::string reference{};
  std::string report{};
  std::string method{"forward"};
  ConfigurationOptions configuration{};
  ConvertConfigurationOptions convert{};
  GoalCommandOptions goal{};
  bool no_check{false};
  bool force{false};
};

/// What a run of quantize found out, for its summary.
struct Outcome {
  std::string backend{};
  std::size_t samples{0};    ///< calibrated on
  std::size_t held_back{0};  ///< of --calib, for judging alone
  uint64_t bytes_before{0};
  Report report{};
  std::optional<GoalOutcome> goal{};
  std::optional<Trial> unseen{};  ///< all samples, each with a model that was not calibrated on it
  std::optional<Verdict> verdict{};
  std::vector<std::pair<std::string, double>> seconds{};
};

std::vector<std::string> inputs_of(const QuantizeOptions& options) {
  std::vector<std::string> inputs = options.configuration.files();
  const std::vector<std::string> of_convert = options.convert.files();
  inputs.insert(inputs.end(), of_convert.begin(), of_convert.end());
  inputs.push_back(options.model);
  if (!options.calib.empty()) inputs.push_back(options.calib);
  if (!options.goal.data.empty()) inputs.push_back(options.goal.data);
  return inputs;
}

void check_usage(const QuantizeOptions& options) {
  if (options.output.empty() && options.reference.empty()) {
    throw UsageError("nothing to write; give --output OUT.pt (see 'tsq quantize --help')");
  }
  if (options.configuration.mode == "static" && options.calib.empty()) {
    throw UsageError(
        "mode 'static' needs calibration data; give --calib DATA.pt (see 'tsq quantize --help')");
  }
  check_goal_usage(options.goal, !options.calib.empty());
  if (options.method != "forward" && !(options.reference.empty() && options.goal.program.empty())) {
    throw UsageError("--reference and --eval apply to forward; leave out --method, or calibrate with it");
  }
  if (!options.goal.given()) return;
  if (!options.convert.qconfig.empty())
    throw UsageError("--convert-qconfig and a goal both say what stays float; give one of them");
  if (options.output.empty()) throw UsageError("a goal applies to the quantized model; give --output OUT.pt");
}

/// Samples to calibrate on, and others to judge by.
struct Fold {
  std::vector<Sample> calibration{};
  std::vector<Sample> trial{};
};

struct SampleSets : Fold {
  std::size_t held_back{0};    ///< of the calibration data, for judging alone
  std::vector<Fold> others{};  ///< other ways to hold as many back: together each sample is held back once
};

/// Such a model takes no float samples, or returns no float values: it cannot be held against the float one.
bool has_quantized_ends(const PrepareCustomConfig& custom) {
  return !custom.input_quantized_indexes().empty() || !custom.output_quantized_indexes().empty();
}

constexpr std::size_t kFolds = 4;

/// Every fourth sample, from the `first` on, is there to judge by.
Fold fold(const std::vector<Sample>& samples, std::size_t first) {
  Fold result;
  for (std::size_t i = 0; i < samples.size(); ++i)
    (i % kFolds == first ? result.trial : result.calibration).push_back(samples[i]);
  return result;
}

/// All but the one from `first` on.
std::vector<Fold> other_folds(const std::vector<Sample>& samples, std::size_t first) {
  std::vector<Fold> folds;
  for (std::size_t i = 0; i < std::min(kFolds, samples.size()); ++i) {
    if (i != first) folds.push_back(fold(samples, i));
  }
  return folds;
}

/// A goal that is judged on what was calibrated on says nothing of other data: every fourth is held back.
/// A few of them do not tell how much samples differ: then each is held back once.
SampleSets sample_sets(const QuantizeOptions& options, const Configuration& chosen,
                       const torch::jit::Module& model) {
  constexpr std::size_t kFirst = 1;
  SampleSets sets;
  if (!options.calib.empty()) sets.calibration = load_samples(options.calib, model);
  if (has_quantized_ends(chosen.custom)) return sets;
  if (!options.goal.data.empty()) {
    sets.trial = load_samples(options.goal.data, model);
    return sets;
  }
  const std::vector<Sample> all = sets.calibration;
  sets.trial = all;
  if (!options.goal.is_judged_on_samples() || all.size() < 2) return sets;
  static_cast<Fold&>(sets) = fold(all, kFirst);
  sets.held_back = sets.trial.size();
  if (options.goal.min_sqnr && sets.held_back < detail::kMostTried) sets.others = other_folds(all, kFirst);
  return sets;
}

/// Prepares with a mapping and calibrates: in dynamic mode samples change nothing unless the mapping has
/// static parts.
Prepared calibrated(const Configuration& chosen, const QConfigMapping& mapping,
                    const torch::jit::Module& model, const std::vector<Sample>& samples, Steps& steps) {
  Prepared prepared = steps.run("prepare", [&](const Progress&) {
    return prepare(model, mapping, chosen.backend,
                   {.custom = chosen.custom, .equalization = chosen.equalization, .recipe = chosen.recipe});
  });
  if (!samples.empty()) {
    steps.run("calibrate",
              [&](const Progress& progress) { calibrate(prepared, samples, {.progress = progress}); });
  }
  return prepared;
}

/// Everything that stays the same while a model is searched for.
struct Work {
  const QuantizeOptions& options;
  const Configuration& chosen;
  const ModelFile& model;
  const SampleSets& samples;
  Steps& steps;
  const Session& session;
};

/// The same work with steps of its own: those inside of another step are not shown.
Work with_steps(const Work& work, Steps& steps, const Session& session) {
  return {.options = work.options,
          .chosen = work.chosen,
          .model = work.model,
          .samples = work.samples,
          .steps = steps,
          .session = session};
}

/// Finishes the model that `mapping` makes; `first` is one that is calibrated already, for the task's
/// mapping.
detail::Finished finished_with(const Work& work, const QConfigMapping& mapping,
                               std::optional<Prepared> first) {
  const ConvertConfiguration at_convert = convert_configuration(work.options.convert);
  const bool is_lowered = !work.options.output.empty();
  const bool is_made_for_this = is_made_for_this_processor(work.chosen.backend);
  detail::FinishTask task{.model = work.model.module,
                          .model_bytes = work.model.bytes,
                          .backend = work.chosen.backend,
                          .mapping = mapping,
                          .custom = at_convert.custom,
                          .convert_mapping = at_convert.mapping,
                          .lowering = lowering_options(work.options.configuration),
                          .calibrated =
                              [&](const QConfigMapping& wanted) {
                                if (first) return *std::exchange(first, std::nullopt);
                                return calibrated(work.chosen, wanted, work.model.module,
                                                  work.samples.calibration, work.steps);
                              },
                          .samples = work.samples.trial,
                          .lowers = is_lowered,
                          .times = is_lowered && !work.options.no_check && is_made_for_this,
                          .leaves_what_does_not_pay = is_lowered && work.chosen.recipe.recipe == Recipe::Best,
                          .force = work.options.force};
  return work.steps.run("convert", [&](const Progress& progress) {
    task.progress = progress;
    return detail::finish(task);
  });
}

/// Adds to `seen` what models of a mapping show on samples that they were not calibrated on, one model for
/// each way to hold some back.
Trial unseen_trial(const Work& work, const QConfigMapping& mapping, std::span<const Fold> folds,
                   Trial seen = {}) {
  const ConvertConfiguration at_convert = convert_configuration(work.options.convert);
  for (const Fold& fold : folds) {
    const Prepared prepared =
        calibrated(work.chosen, mapping, work.model.module, fold.calibration, work.steps);
    const Reference reference = convert_to_reference(
        prepared, work.chosen.backend, {.custom = at_convert.custom, .mapping = at_convert.mapping});
    const torch::jit::Module module =
        lower(reference, work.chosen.backend, lowering_options(work.options.configuration));
    const Trial trial = try_model(work.model.module, module, work.chosen.backend, fold.trial);
    if (trial.fault) return trial;
    seen.samples += trial.samples;
    seen.sample_db.insert(seen.sample_db.end(), trial.sample_db.begin(), trial.sample_db.end());
  }
  double share = 0;
  for (const double db : seen.sample_db) share += std::pow(10, -db / 10);
  if (!seen.sample_db.empty())
    seen.sqnr_db = -10 * std::log10(share / static_cast<double>(seen.sample_db.size()));
  return seen;
}

/// What the samples that were calibrated on show is somewhat too good. Where twice the error would be poor,
/// models that have not seen them tell.
std::optional<Trial> unseen_where_close(const Work& work, const detail::Finished& done) {
  constexpr double kTwice = 3.01;  // dB
  const std::vector<Sample>& samples = work.samples.calibration;
  const bool is_judged_on_calibration = work.options.goal.data.empty() && work.samples.held_back == 0;
  if (!done.module || done.trial.fault || !is_judged_on_calibration || samples.size() < 2)
    return std::nullopt;
  const auto expected = done.trial.expected_db() ? done.trial.expected_db() : done.trial.sqnr_db;
  if (!expected || *expected < kPoorDb || *expected >= kPoorDb + kTwice) return std::nullopt;
  std::vector<Fold> folds{fold(samples, 0)};
  if (folds.front().trial.size() < detail::kMostTried)
    std::ranges::move(other_folds(samples, 0), std::back_inserter(folds));
  const Session silent{.quiet = true};
  Steps inner(silent);
  const Work again = with_steps(work, inner, silent);
  return work.steps.run("hold back",
                        [&](const Progress&) { return unseen_trial(again, done.mapping, folds); });
}

/// The model of the mapping that the goal's search finds.
detail::Finished finished_for_goal(const Work& work, const Prepared& prepared, Outcome& outcome) {
  const Session silent{.quiet = true};
  Steps inner(silent);
  const Work again = with_steps(work, inner, silent);
  std::optional<detail::Finished> done;
  const auto confirm = [&](const QConfigMapping& mapping, const AccuracyGoal& goal) {
    done = finished_with(again, mapping, std::nullopt);
    constexpr double kSame = std::numeric_limits<double>::infinity();
    if (!done->module) return kSame;
    if (work.samples.others.empty()) return goal.score(*done->module);
    outcome.unseen = unseen_trial(again, done->mapping, work.samples.others, done->trial);
    if (outcome.unseen->fault) return -kSame;
    return outcome.unseen->assured_db().value_or(outcome.unseen->sqnr_db.value_or(kSame));
  };
  GoalTask task{.options = work.options.goal,
                .model = work.options.model,
                .output = work.options.output,
                .custom = convert_configuration(work.options.convert).custom,
                .lowering = lowering_options(work.options.configuration),
                .confirm = confirm};
  if (work.samples.held_back > 0) task.calibrated = work.samples.calibration;
  outcome.goal =
      search_for_goal(task, prepared, work.chosen.backend, work.samples.trial, work.steps, work.session);
  if (!done->module) outcome.unseen.reset();
  // Entries of the search are nobody's mistake.
  done->report.unmatched_entries = prepared.report().unmatched_entries;
  return *std::move(done);
}

/// The model found, and what it was made with: with a goal, what stays float is searched for first.
detail::Finished finished(const Work& work, Outcome& outcome) {
  Prepared prepared =
      calibrated(work.chosen, work.chosen.mapping, work.model.module, work.samples.calibration, work.steps);
  if (work.options.goal.given()) return finished_for_goal(work, prepared, outcome);
  detail::Finished done = finished_with(work, work.chosen.mapping, std::move(prepared));
  outcome.unseen = unseen_where_close(work, done);
  return done;
}

void write_reference(const QuantizeOptions& options, const Reference& reference, OutputFiles& files) {
  if (!options.reference.empty())
    files.write(options.reference,
                [&](const std::string& place) { reference.save(place, read_extra_files(options.model)); });
}

void write_quantized(const QuantizeOptions& options, const detail::Finished& finished,
                     const torch::jit::Module& model, const torchscript::MethodAsForward& method,
                     Steps& steps, OutputFiles& files) {
  if (options.output.empty()) return;
  steps.run("save", [&](const Progress&) {
    files.write(options.output, [&](const std::string& place) {
      save(method.take_back(finished.module.value_or(model)), place, read_extra_files(options.model));
    });
  });
}

Outcome quantize(const QuantizeOptions& options, const Session& session) {
  OutputFiles files(inputs_of(options));
  for (const std::string& output :
       {options.output, options.reference, options.report, options.goal.mapping}) {
    if (!output.empty()) files.claim(output);
  }
  const Configuration chosen = configuration(options.configuration);
  Steps steps(session);
  Outcome outcome{.backend = chosen.backend.name()};
  ModelFile model = steps.run("load", [&](const Progress&) {
    return options.method == "forward" ? load_float_model(options.model)
                                       : load_float_model_of_any_method(options.model);
  });
  const torchscript::MethodAsForward method(model.module, options.method);
  model.module = method.put(model.module);
  tell_devices(model, session);
  outcome.bytes_before = model.bytes;
  const SampleSets samples =
      steps.run("read data", [&](const Progress&) { return sample_sets(options, chosen, model.module); });
  outcome.samples = samples.calibration.size();
  outcome.held_back = samples.held_back;
  detail::Finished done = finished({.options = options,
                                    .chosen = chosen,
                                    .model = model,
                                    .samples = samples,
                                    .steps = steps,
                                    .session = session},
                                   outcome);
  write_reference(options, done.reference, files);
  write_quantized(options, done, model.module, method, steps, files);
  outcome.report = done.report;
  outcome.verdict =
      verdict_of(done, {.model_bytes = model.bytes,
                        .unseen = outcome.unseen,
                        .has_goal = options.goal.given(),
                        .samples_are_calibration = options.goal.data.empty() && samples.held_back == 0,
                        .recipe = chosen.recipe.recipe,
                        .backend = chosen.backend,
                        .timing_was_asked_for = !options.no_check});
  if (!options.report.empty()) {
    nlohmann::json report = outcome.report.to_json();
    report["trial"] = outcome.verdict->to_json();
    if (outcome.goal) report["goal"] = outcome.goal->to_json();
    files.write_text(options.report, report.dump(2) + "\n");
  }
  if (!options.goal.mapping.empty())
    files.write_text(options.goal.mapping, done.mapping.to_dict().dump(2) + "\n");
  files.commit();
  outcome.seconds = steps.seconds();
  return outcome;
}

uint64_t size_of(const std::string& path) {
  std::error_code code;
  const auto size = std::filesystem::file_size(path, code);
  return code ? 0 : size;
}

void print_text(const QuantizeOptions& options, const Outcome& outcome) {
  std::cout << fmt::format("'{}' quantized for {} ({}, recipe {})\n", options.model, outcome.backend,
                           options.configuration.mode, options.configuration.recipe);
  std::cout << operator_summary_text(outcome.report, "--report R.json");
  if (!options.output.empty()) {
    const uint64_t after = size_of(options.output);
    std::cout << fmt::format("  size       {} -> {} ({:.0f} %)\n", readable_size(outcome.bytes_before),
                             readable_size(after),
                             100.0 * static_cast<double>(after) /
                                 static_cast<double>(std::max<uint64_t>(1, outcome.bytes_before)));
  }
  std::cout << fmt::format("  time       {}", seconds_text(outcome.seconds));
  std::cout << (outcome.samples > 0 ? fmt::format(" ({} samples)\n", outcome.samples) : "\n");
  std::cout << outcome.verdict->text();
  if (outcome.held_back > 0)
    std::cout << fmt::format(
        "  held back  {} sample{} of --calib, for judging alone{}\n", outcome.held_back,
        outcome.held_back == 1 ? "" : "s",
        outcome.unseen ? "; further models of the same mapping held back the others" : "");
  std::cout << unobserved_text(outcome.report) << warnings_text(outcome.report)
            << outcome.verdict->remarks_text();
  if (outcome.goal) std::cout << goal_text(*outcome.goal);
  for (const auto& [what, path] : {std::pair{"output", options.output},
                                   {"reference", options.reference},
                                   {"report", options.report},
                                   {"qconfig", options.goal.mapping}}) {
    if (!path.empty()) std::cout << fmt::format("  {:<9}  {}\n", what, path);
  }
}

nlohmann::json to_json(const QuantizeOptions& options, const Outcome& outcome) {
  nlohmann::json files = nlohmann::json::object();
  for (const auto& [what, path] : {std::pair{"output", options.output},
                                   {"reference", options.reference},
                                   {"report", options.report},
                                   {"qconfig", options.goal.mapping}}) {
    if (!path.empty()) files[what] = {{"path", path}, {"bytes", size_of(path)}};
  }
  nlohmann::json warnings = warnings_json(outcome.report);
  for (const std::string& warning : outcome.verdict->warnings()) warnings.push_back(warning);
  nlohmann::json json = {{"model", {{"path", options.model}, {"bytes", outcome.bytes_before}}},
                         {"files", files},
                         {"backend", outcome.backend},
                         {"mode", options.configuration.mode},
                         {"recipe", options.configuration.recipe},
                         {"samples", outcome.samples},
                         {"held_back", outcome.held_back},
                         {"trial", outcome.verdict->to_json()},
                         {"operators", operator_summary(outcome.report)},
                         {"unobserved_layers", outcome.report.unobserved_layers},
                         {"warnings", std::move(warnings)},
                         {"steps", seconds_json(outcome.seconds)}};
  if (outcome.goal) json["goal"] = outcome.goal->to_json();
  return json;
}

}  // namespace

void add_quantize(CLI::App& app, Session& session) {
  CLI::App* command = add_command(app, session, "quantize", kQuantizeSummary, kQuantizeExamples);
  const auto options = std::make_shared<QuantizeOptions>();
  command->add_option("MODEL.pt", options->model, "The float model, a TorchScript file")
      ->required()
      ->type_name("");
  command->add_option("--calib", options->calib, "Calibration data; needed in static mode")
      ->type_name("DATA.pt");
  command
      ->add_option("--method", options->method,
                   "The method to run and to judge on the samples, which are its arguments\n"
                   "(default: forward)")
      ->type_name("NAME");
  command->add_option("-o,--output", options->output, "The quantized model to write")->type_name("OUT.pt");
  command->add_option("--reference", options->reference, "Also write the model of quantize/dequantize pairs")
      ->type_name("REF.pt");
  command->add_option("--report", options->report, "Also write what happened to each operator, and why")
      ->type_name("R.json");
  add_configuration_options(*command, options->configuration);
  add_lowering_options(*command, options->configuration);
  add_convert_options(*command, options->convert);
  command
      ->add_option(
          "--data", options->goal.data,
          "Samples to try the result on, and to judge it by (default: those of --calib; with a goal\n"
          "a quarter of them, which then do not calibrate)")
      ->type_name("DATA.pt");
  command->add_flag("--no-check", options->no_check,
                    "Measure no latency, so that the same input makes the same file");
  command->add_flag("--force", options->force,
                    "Write the int8 result as it is, even where it fails or is slower or larger than float");
  add_goal_options(*command, options->goal);
  command->callback([options, &session] {
    session.action = [options, &session] {
      check_usage(*options);
      const Outcome outcome = quantize(*options, session);
      if (session.speaks_text()) print_text(*options, outcome);
      print_json(session, to_json(*options, outcome));
    };
  });
}

}  // namespace tsq::cli
