#include <fmt/format.h>
#include <torch/script.h>
#include <tsq/data.h>
#include <tsq/quantize_model.h>

#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "cli/commands/commands.h"
#include "cli/commands/configuration.h"
#include "cli/commands/goal.h"
#include "cli/printing/progress.h"
#include "cli/printing/summary.h"
#include "cli/printing/text_table.h"
#include "cli/printing/verdict.h"
#include "cli/process/failure.h"
#include "cli/process/model_file.h"
#include "cli/process/output_files.h"

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

struct QuantizeCommandOptions {
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
  uint64_t bytes_before{0};
  Quantized quantized;
  Verdict verdict{};
  std::vector<std::pair<std::string, double>> seconds{};
};

std::vector<std::string> inputs_of(const QuantizeCommandOptions& options) {
  std::vector<std::string> inputs = options.configuration.files();
  const std::vector<std::string> of_convert = options.convert.files();
  inputs.insert(inputs.end(), of_convert.begin(), of_convert.end());
  inputs.push_back(options.model);
  if (!options.calib.empty()) inputs.push_back(options.calib);
  if (!options.goal.data.empty()) inputs.push_back(options.goal.data);
  return inputs;
}

void check_usage(const QuantizeCommandOptions& options) {
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

/// The samples of --calib, and those of --data.
struct Data {
  std::vector<Sample> calibration{};
  std::vector<Sample> judged_by{};
};

Data data_of(const QuantizeCommandOptions& options, const torch::jit::Module& model) {
  Data data;
  if (!options.calib.empty()) data.calibration = load_samples(options.calib, model, options.method);
  if (!options.goal.data.empty()) data.judged_by = load_samples(options.goal.data, model, options.method);
  return data;
}

/// The steps of the library are shown as those of the command.
QuantizeEvents events_for(Steps& steps, SearchProgress& search) {
  return {.on_begin = [&steps](std::string_view step) { steps.begin(std::string(step)); },
          .on_progress = [&steps](std::string_view, std::size_t done,
                                  std::size_t total) { steps.update(done, total); },
          .on_end =
              [&steps, &search](std::string_view) {
                search.end();
                steps.end();
              },
          .on_trial = [&search](const GoalTrial& trial) { search.on_trial(trial); },
          .on_ranking = [&search](std::size_t done, std::size_t total) { search.on_ranking(done, total); }};
}

QuantizeOptions quantize_options(const QuantizeCommandOptions& options, const Configuration& chosen,
                                 const ModelFile& model) {
  const ConvertConfiguration at_convert = convert_configuration(options.convert);
  return {.backend_config = chosen.backend,
          .mode = chosen.mode,
          .mapping = chosen.mapping,
          .custom = chosen.custom,
          .equalization = chosen.equalization,
          .recipe = chosen.recipe,
          .convert_custom = at_convert.custom,
          .convert_mapping = at_convert.mapping,
          .lowering = lowering_options(options.configuration),
          .lowers = !options.output.empty(),
          .method = options.method,
          .goal = quantize_goal(options.goal, model, options.output),
          .times = !options.no_check,
          .force = options.force,
          .float_bytes = model.bytes};
}

void write_reference(const QuantizeCommandOptions& options, const Reference& reference, OutputFiles& files) {
  if (!options.reference.empty())
    files.write(options.reference,
                [&](const std::string& place) { reference.save(place, read_extra_files(options.model)); });
}

void write_quantized(const QuantizeCommandOptions& options, const torch::jit::Module& module, Steps& steps,
                     OutputFiles& files) {
  if (options.output.empty()) return;
  steps.run("save", [&](const Progress&) {
    files.write(options.output,
                [&](const std::string& place) { save(module, place, read_extra_files(options.model)); });
  });
}

nlohmann::json report_json(const Quantized& quantized, const Verdict& verdict) {
  nlohmann::json report = quantized.report().to_json();
  report["trial"] = verdict.to_json();
  if (quantized.goal) report["goal"] = quantized.goal->to_json();
  return report;
}

Quantized quantized_model(const QuantizeCommandOptions& options, const Configuration& chosen,
                          const ModelFile& model, Steps& steps, const Session& session) {
  Data data = steps.run("read data", [&](const Progress&) { return data_of(options, model.module); });
  QuantizeOptions of_library = quantize_options(options, chosen, model);
  of_library.judged_by = std::move(data.judged_by);
  SearchProgress search(session);
  of_library.events = events_for(steps, search);
  return quantize(model.module, data.calibration, of_library);
}

Outcome run_quantize(const QuantizeCommandOptions& options, const Session& session) {
  OutputFiles files(inputs_of(options));
  for (const std::string& output :
       {options.output, options.reference, options.report, options.goal.mapping}) {
    if (!output.empty()) files.claim(output);
  }
  const Configuration chosen = configuration(options.configuration);
  Steps steps(session);
  const ModelFile model = steps.run("load", [&](const Progress&) {
    return options.method == "forward" ? load_float_model(options.model)
                                       : load_float_model_of_any_method(options.model);
  });
  tell_devices(model, session);
  Quantized quantized = quantized_model(options, chosen, model, steps, session);
  write_reference(options, quantized.reference, files);
  write_quantized(options, quantized.module(), steps, files);
  Verdict verdict =
      verdict_of(quantized, {.samples_are_calibration = options.goal.data.empty() && quantized.held_back == 0,
                             .recipe = chosen.recipe.recipe,
                             .backend = chosen.backend,
                             .timing_was_asked_for = !options.no_check});
  if (!options.report.empty())
    files.write_text(options.report, report_json(quantized, verdict).dump(2) + "\n");
  if (!options.goal.mapping.empty())
    files.write_text(options.goal.mapping, quantized.mapping.to_dict().dump(2) + "\n");
  files.commit();
  return {.backend = chosen.backend.name(),
          .bytes_before = model.bytes,
          .quantized = std::move(quantized),
          .verdict = std::move(verdict),
          .seconds = steps.seconds()};
}

uint64_t size_of(const std::string& path) {
  std::error_code code;
  const auto size = std::filesystem::file_size(path, code);
  return code ? 0 : size;
}

void print_text(const QuantizeCommandOptions& options, const Outcome& outcome) {
  std::cout << fmt::format("'{}' quantized for {} ({}, recipe {})\n", options.model, outcome.backend,
                           options.configuration.mode, options.configuration.recipe);
  std::cout << operator_summary_text(outcome.quantized.report(), "--report R.json");
  if (!options.output.empty()) {
    const uint64_t after = size_of(options.output);
    std::cout << fmt::format("  size       {} -> {} ({:.0f} %)\n", readable_size(outcome.bytes_before),
                             readable_size(after),
                             100.0 * static_cast<double>(after) /
                                 static_cast<double>(std::max<uint64_t>(1, outcome.bytes_before)));
  }
  std::cout << fmt::format("  time       {}", seconds_text(outcome.seconds));
  std::cout << (outcome.quantized.samples > 0 ? fmt::format(" ({} samples)\n", outcome.quantized.samples)
                                              : "\n");
  std::cout << outcome.verdict.text();
  if (outcome.quantized.held_back > 0)
    std::cout << fmt::format(
        "  held back  {} sample{} of --calib, for judging alone{}\n", outcome.quantized.held_back,
        outcome.quantized.held_back == 1 ? "" : "s",
        outcome.quantized.unseen ? "; further models of the same mapping held back the others" : "");
  std::cout << unobserved_text(outcome.quantized.report()) << warnings_text(outcome.quantized.report())
            << outcome.verdict.remarks_text();
  if (outcome.quantized.goal) std::cout << goal_text(*outcome.quantized.goal);
  for (const auto& [what, path] : {std::pair{"output", options.output},
                                   {"reference", options.reference},
                                   {"report", options.report},
                                   {"qconfig", options.goal.mapping}}) {
    if (!path.empty()) std::cout << fmt::format("  {:<9}  {}\n", what, path);
  }
}

nlohmann::json to_json(const QuantizeCommandOptions& options, const Outcome& outcome) {
  nlohmann::json files = nlohmann::json::object();
  for (const auto& [what, path] : {std::pair{"output", options.output},
                                   {"reference", options.reference},
                                   {"report", options.report},
                                   {"qconfig", options.goal.mapping}}) {
    if (!path.empty()) files[what] = {{"path", path}, {"bytes", size_of(path)}};
  }
  nlohmann::json warnings = warnings_json(outcome.quantized.report());
  for (const std::string& warning : outcome.verdict.warnings()) warnings.push_back(warning);
  nlohmann::json answer = {{"model", {{"path", options.model}, {"bytes", outcome.bytes_before}}},
                           {"files", files},
                           {"backend", outcome.backend},
                           {"mode", options.configuration.mode},
                           {"recipe", options.configuration.recipe},
                           {"samples", outcome.quantized.samples},
                           {"held_back", outcome.quantized.held_back},
                           {"trial", outcome.verdict.to_json()},
                           {"operators", operator_summary(outcome.quantized.report())},
                           {"unobserved_layers", outcome.quantized.report().unobserved_layers},
                           {"warnings", std::move(warnings)},
                           {"steps", seconds_json(outcome.seconds)}};
  if (outcome.quantized.goal) answer["goal"] = outcome.quantized.goal->to_json();
  return answer;
}

}  // namespace

void add_quantize(CLI::App& app, Session& session) {
  CLI::App* command = add_command(app, session, "quantize", kQuantizeSummary, kQuantizeExamples);
  const auto options = std::make_shared<QuantizeCommandOptions>();
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
      const Outcome outcome = run_quantize(*options, session);
      if (session.speaks_text()) print_text(*options, outcome);
      print_json(session, to_json(*options, outcome));
    };
  });
}

}  // namespace tsq::cli
