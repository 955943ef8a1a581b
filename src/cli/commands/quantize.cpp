#include <fmt/format.h>
#include <torch/script.h>
#include <tsq/error.h>
#include <tsq/frontier.h>
#include <tsq/quantize_model.h>
#include <tsq/report_page.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/recipe_options.h"
#include "cli/commands/commands.h"
#include "cli/commands/configuration.h"
#include "cli/commands/float_model.h"
#include "cli/commands/goal.h"
#include "cli/printing/decisions.h"
#include "cli/printing/progress.h"
#include "cli/printing/summary.h"
#include "cli/printing/texts.h"
#include "cli/printing/verdict.h"
#include "cli/process/failure.h"
#include "cli/process/options.h"
#include "cli/process/output_files.h"

namespace tsq::cli {
namespace {

constexpr CommandHelp kQuantizeHelp{
    .name = "quantize",
    .summary = "Quantize a float model: prepare, calibrate, convert and lower at once",
    .examples =
        "  tsq quantize model.pt --calib data.pt --output model.int8.pt\n"
        "  tsq quantize model.pt --calib data.npy --backend fbgemm --output model.int8.pt --report "
        "report.json\n"
        "  tsq quantize model.pt --calib data.pt --qconfig q.json --backend-config b.json --output "
        "model.int8.pt\n"
        "  tsq quantize lstm.pt --mode dynamic --output lstm.int8.pt\n"
        "  tsq quantize bag.pt --mode weight_only --bits 4 --output bag.int4.pt\n"
        "  tsq quantize model.pt --calib data.pt --min-agreement 0.99 --output model.int8.pt\n"
        "  tsq quantize model.pt --calib data.pt --eval './accuracy.py {} test/' --output model.int8.pt\n\n"
        "Calibration data is a list of samples, each a tensor or a tuple of forward's arguments, from "
        "torch.save or\n"
        "torch::pickle_save; or .npy/.npz whose first axis counts samples, each then a batch of one. Some "
        "100 samples\n"
        "like those of real use are enough.\n\n"
        "The result loads with torch::jit::load in any LibTorch; set the engine first, as tsq::load does:\n"
        "  at::globalContext().setQEngine(at::QEngine::X86);"};

struct QuantizeCommandOptions {
  std::string model{};
  std::string calib{};
  std::string output{};
  std::string reference{};
  std::string report{};
  std::string frontier{};
  std::string method{"forward"};
  ConfigurationOptions configuration{};
  ConvertConfigurationOptions convert{};
  GoalCommandOptions goal{};
  std::vector<std::string> decisions{};
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

/// The files to write, and what each is called.
std::vector<std::pair<std::string_view, std::string>> outputs_of(const QuantizeCommandOptions& options) {
  std::vector<std::pair<std::string_view, std::string>> outputs{{"output", options.output},
                                                                {"reference", options.reference},
                                                                {"report", options.report},
                                                                {"frontier", options.frontier},
                                                                {"plan", options.convert.plan_output},
                                                                {"qconfig", options.goal.mapping}};
  std::erase_if(outputs, [](const auto& output) { return output.second.empty(); });
  return outputs;
}

bool chooses_backend(const ConfigurationOptions& options) { return options.backend == kAuto; }
bool chooses_target(const ConfigurationOptions& options) { return options.target == kAuto; }

/// With the first of the targets that are to be chosen among.
ConfigurationOptions to_begin_with(ConfigurationOptions options) {
  if (chooses_backend(options)) options.backend.clear();
  if (chooses_target(options)) options.target.reset();
  return options;
}

void check_choice(const QuantizeCommandOptions& options) {
  const ConfigurationOptions& configuration = options.configuration;
  if (!chooses_backend(configuration) && !chooses_target(configuration)) return;
  const std::string_view name = chooses_backend(configuration) ? "--backend auto" : "--target auto";
  const auto refuse = [&](std::string_view other) {
    throw UsageError(fmt::format("{} chooses by what recipe best finds, and {}; name a {}, or leave that out",
                                 name, other, chooses_backend(configuration) ? "backend" : "target"));
  };
  if (!configuration.qconfig.empty()) refuse("--qconfig says how each layer is quantized");
  if (!configuration.backend_config.empty()) refuse("--backend-config is the table of one engine");
  if (configuration.recipe != "best") refuse("this is recipe fx");
  if (configuration.mode == "weight_only") refuse("mode weight_only has no kernels to choose among");
  if (options.calib.empty()) refuse("there is no --calib to find it on");
  if (options.output.empty()) refuse("there is no --output to time");
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
  check_choice(options);
  if (!options.frontier.empty() && !options.frontier.ends_with(".html") &&
      !options.frontier.ends_with(".json"))
    throw UsageError("--frontier writes a page or JSON; give a name that ends in .html or .json");
  if (!options.frontier.empty() && (options.calib.empty() || options.configuration.recipe != "best"))
    throw UsageError("--frontier is of plans of recipe best; give --calib DATA.pt, and leave --recipe out");
  if (!options.goal.max_latency.empty() && options.no_check)
    throw UsageError("--max-latency needs times, and --no-check measures none; leave one of them out");
  if (options.method != "forward" && !(options.reference.empty() && options.goal.program.empty())) {
    throw UsageError("--reference and --eval apply to forward; leave out --method, or calibrate with it");
  }
  if (!options.goal.given()) return;
  for (const auto& [file, name] :
       {std::pair{options.convert.qconfig, "--convert-qconfig"}, std::pair{options.convert.plan, "--plan"}}) {
    if (!file.empty())
      throw UsageError(fmt::format("{} and a goal both say what stays float; give one of them", name));
  }
  if (options.output.empty()) throw UsageError("a goal applies to the quantized model; give --output OUT.pt");
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
  const ConvertOptions at_convert = convert_options(options.convert);
  const bool chooses = chooses_backend(options.configuration) || chooses_target(options.configuration);
  const QuantizeOptions asked{.backend = std::string(chosen.backend.engine()),
                              .backend_config = chooses ? std::nullopt : std::optional(chosen.backend),
                              .mode = chosen.mode,
                              .mapping = chooses ? std::nullopt : std::optional(chosen.mapping),
                              .custom = chosen.custom,
                              .equalization = chosen.equalization,
                              .convert_custom = at_convert.custom,
                              .convert_mapping = at_convert.mapping,
                              .plan = at_convert.plan,
                              .float_dtype = lowering_options(options.configuration).float_dtype,
                              .lowers = !options.output.empty(),
                              .method = options.method,
                              .goal = quantize_goal(options.goal, model, options.output),
                              .decisions = named_decisions(options.decisions),
                              .times = !options.no_check,
                              .chooses_backend = chooses_backend(options.configuration),
                              .chooses_target = chooses_target(options.configuration),
                              .frontier = options.frontier.empty() ? 0 : FrontierOptions().points,
                              .force = options.force,
                              .float_bytes = model.bytes};
  return detail::with_recipe(asked, chosen.recipe);
}

void write_reference(const QuantizeCommandOptions& options, const Reference& reference, OutputFiles& files) {
  if (!options.reference.empty())
    files.write(options.reference,
                [&](const std::string& place) { reference.save(place, read_extra_files(options.model)); });
}

/// Whether the result is the model as the file has it: LibTorch would write more bytes than it has read.
bool is_as_it_was(const torch::jit::Module& module, const ModelFile& model) {
  return module._ivalue() == model.module._ivalue() && !model.trains && model.devices.empty();
}

void copy(const std::string& from, const std::string& to) {
  std::error_code code;
  std::filesystem::copy_file(from, to, code);
  if (code) throw Error(ErrorCode::BadOutput, fmt::format("'{}' cannot be written: {}", to, code.message()));
}

void write_quantized(const QuantizeCommandOptions& options, const torch::jit::Module& module,
                     const ModelFile& model, Steps& steps, OutputFiles& files) {
  if (options.output.empty()) return;
  steps.run("save", [&](const Progress&) {
    files.write(options.output, [&](const std::string& place) {
      if (is_as_it_was(module, model)) {
        copy(options.model, place);
      } else {
        save(module, place, read_extra_files(options.model));
      }
    });
  });
}

void write_frontier(const QuantizeCommandOptions& options, std::span<const FrontierPoint> points,
                    OutputFiles& files) {
  if (options.frontier.empty()) return;
  const std::string name = std::filesystem::path(options.model).filename().string();
  const nlohmann::json found = frontier_json(points, fmt::format("Frontier of {}", name));
  if (options.frontier.ends_with(".json")) {
    files.write_json(options.frontier, found);
  } else {
    files.write_text(options.frontier, report_page(found));
  }
}

nlohmann::json report_json(const Quantized& quantized, const Verdict& verdict) {
  nlohmann::json report = quantized.report().to_json();
  report["trial"] = verdict.json;
  if (quantized.goal) report["goal"] = quantized.goal->to_json();
  return report;
}

Quantized quantized_model(const QuantizeCommandOptions& options, const Configuration& chosen,
                          const ModelFile& model, Steps& steps, const Session& session) {
  auto [calibration, judged_by] = steps.run("read data", [&](const Progress&) {
    return std::pair{samples_if_given(options.calib, model.module, options.method),
                     samples_if_given(options.goal.data, model.module, options.method)};
  });
  QuantizeOptions of_library = quantize_options(options, chosen, model);
  of_library.judged_by = std::move(judged_by);
  SearchProgress search(session);
  of_library.events = events_for(steps, search);
  return quantize(model.module, calibration, of_library);
}

Outcome outcome_of(const QuantizeCommandOptions& options, const Session& session) {
  OutputFiles files(session);
  const ConfigurationOptions first = to_begin_with(options.configuration);
  const Configuration chosen = options.output.empty() ? configuration(first) : configuration_to_lower(first);
  Steps steps(session);
  const ModelFile model = load_float_model(options.model, steps, session, options.method);
  Quantized quantized = quantized_model(options, chosen, model, steps, session);
  write_reference(options, quantized.reference, files);
  write_quantized(options, quantized.module(), model, steps, files);
  Verdict verdict =
      verdict_of(quantized, {.samples_are_calibration = options.goal.data.empty() && quantized.held_back == 0,
                             .backend = chosen.backend});
  if (!options.report.empty()) files.write_json(options.report, report_json(quantized, verdict));
  write_frontier(options, quantized.frontier, files);
  if (!options.goal.mapping.empty()) files.write_json(options.goal.mapping, quantized.mapping.to_dict());
  if (!options.convert.plan_output.empty())
    files.write_json(options.convert.plan_output, quantized.reference.plan().to_dict());
  files.commit();
  const bool chooses = chooses_backend(options.configuration);
  return {.backend = chooses ? quantized.target.engine : chosen.backend.name(),
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

/// The size of the output beside that of the model.
std::string size_text(const QuantizeCommandOptions& options, const Outcome& outcome) {
  if (options.output.empty()) return {};
  const uint64_t after = size_of(options.output);
  return fmt::format(
      "  size       {} -> {} ({:.0f} %)\n", readable_size(outcome.bytes_before), readable_size(after),
      100.0 * static_cast<double>(after) / static_cast<double>(std::max<uint64_t>(1, outcome.bytes_before)));
}

std::string text_of(const QuantizeCommandOptions& options, const Outcome& outcome) {
  const Quantized& quantized = outcome.quantized;
  std::string text =
      fmt::format("'{}' quantized for {} ({}, recipe {}{})\n{}{}  time       {}{}\n{}", options.model,
                  outcome.backend, options.configuration.mode, options.configuration.recipe,
                  quantized.target.runtime == LoweringTarget::Fused ? ", target fused" : "",
                  operator_summary_text(quantized.report(), "--report R.json"), size_text(options, outcome),
                  seconds_text(outcome.seconds),
                  quantized.samples > 0
                      ? fmt::format(" ({} sample{})", quantized.samples, quantized.samples == 1 ? "" : "s")
                      : "",
                  outcome.verdict.text);
  if (quantized.held_back > 0)
    text += fmt::format("  held back  {} sample{} of --calib, for judging alone{}\n", quantized.held_back,
                        quantized.held_back == 1 ? "" : "s",
                        quantized.unseen ? "; further models of the same mapping held back the others" : "");
  text += unobserved_text(quantized.report()) + warnings_text(quantized.report()) +
          outcome.verdict.remarks_text();
  if (quantized.goal) text += goal_text(*quantized.goal);
  for (const auto& [what, path] : outputs_of(options)) text += fmt::format("  {:<9}  {}\n", what, path);
  return text;
}

nlohmann::json to_json(const QuantizeCommandOptions& options, const Outcome& outcome) {
  nlohmann::json files = nlohmann::json::object();
  for (const auto& [what, path] : outputs_of(options))
    files[std::string(what)] = {{"path", path}, {"bytes", size_of(path)}};
  nlohmann::json warnings = warnings_json(outcome.quantized.report());
  for (const std::string& warning : outcome.verdict.warnings) warnings.push_back(warning);
  nlohmann::json answer = {{"model", {{"path", options.model}, {"bytes", outcome.bytes_before}}},
                           {"files", files},
                           {"backend", outcome.backend},
                           {"target", to_string(outcome.quantized.target.runtime)},
                           {"mode", options.configuration.mode},
                           {"recipe", options.configuration.recipe},
                           {"samples", outcome.quantized.samples},
                           {"held_back", outcome.quantized.held_back},
                           {"trial", outcome.verdict.json},
                           {"operators", operator_summary(outcome.quantized.report())},
                           {"unobserved_layers", outcome.quantized.report().unobserved_layers},
                           {"warnings", std::move(warnings)},
                           {"steps", seconds_json(outcome.seconds)}};
  if (outcome.quantized.goal) answer["goal"] = outcome.quantized.goal->to_json();
  return answer;
}

void run_quantize(const QuantizeCommandOptions& options, const Session& session) {
  check_usage(options);
  const Outcome outcome = outcome_of(options, session);
  print_result(session, text_of(options, outcome), to_json(options, outcome));
}

void add_quantize_options(const Command& command, QuantizeCommandOptions& options) {
  add_options(
      command,
      {required(input({"MODEL.pt", into(options.model), "The float model, a TorchScript file"})),
       input({"--calib", into(options.calib), "Calibration data; needed in static mode", "DATA.pt"}),
       {"--method", into(options.method),
        "The method to run and to judge on the samples, which are its arguments\n(default: forward)", "NAME"},
       output({"-o,--output", into(options.output), "The quantized model to write", "OUT.pt"}),
       output({"--reference", into(options.reference), "Also write the model of quantize/dequantize pairs",
               "REF.pt"}),
       output({"--report", into(options.report), "Also write what happened to each operator, and why",
               "R.json"}),
       output(
           {"--frontier", into(options.frontier),
            "Also measure models between the fastest and the most accurate one, and write them, as a page\n"
            "or as JSON",
            "F.html|F.json"})});
  add_configuration_options(command, options.configuration, /*may_choose=*/true);
  add_lowering_options(command, options.configuration);
  add_convert_options(command, options.convert);
  add_options(
      command,
      {input({"--data", into(options.goal.data),
              "Samples to try the result on, and to judge it by (default: those of --calib; with a goal\n"
              "a quarter of them, which then do not calibrate)",
              "DATA.pt"}),
       decisions_option(options.decisions),
       {"--no-check", into(options.no_check),
        "Measure no latency, so that the same input makes the same file with the same --threads"},
       {"--force", into(options.force),
        "Write the int8 result as it is, even where it fails or is slower or larger than float"}});
  add_goal_options(command, options.goal);
}

}  // namespace

void add_quantize(CLI::App& app, Session& session) {
  add_command<QuantizeCommandOptions>(app, session, kQuantizeHelp, add_quantize_options, run_quantize);
}

}  // namespace tsq::cli
