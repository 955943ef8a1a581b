#include <fmt/format.h>
#include <torch/script.h>
#include <tsq/data.h>
#include <tsq/error.h>
#include <tsq/train.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/recipe_options.h"
#include "cli/commands/commands.h"
#include "cli/commands/configuration.h"
#include "cli/commands/float_model.h"
#include "cli/printing/progress.h"
#include "cli/printing/summary.h"
#include "cli/process/failure.h"
#include "cli/process/options.h"
#include "cli/process/output_files.h"

namespace tsq::cli {
namespace {

constexpr CommandHelp kPrepareHelp{
    .name = "prepare",
    .summary = "Step 1 of quantize: put observers into a float model",
    .examples =
        "  tsq prepare model.pt --backend x86 --output prepared.pt\n"
        "  tsq calibrate prepared.pt --calib data.pt --output calibrated.pt\n"
        "  tsq convert calibrated.pt --output reference.pt\n"
        "  tsq lower reference.pt --output model.int8.pt\n\n"
        "The prepared model is an ordinary TorchScript file: any LibTorch program can run it on its data and "
        "save it again.\n\n"
        "Quantization-aware training, in Python or C++, between prepare and convert:\n"
        "  tsq prepare --qat model.pt --calib data.pt --output to_train.pt\n"
        "  tsq convert trained.pt --output reference.pt\n\n"
        "Training that begins where quantization without training ends, and keeps its ranges:\n"
        "  tsq prepare --qat reference.pt --output to_train.pt\n"
        "  tsq lower trained.pt --output model.int8.pt"};

struct PrepareOptions {
  std::string model{};
  std::string output{};
  std::string calib{};
  ConfigurationOptions configuration{};
};

void check_training_options(const PrepareOptions& options) {
  const ConfigurationOptions& chosen = options.configuration;
  if (chosen.qat && chosen.mode != "static")
    throw UsageError(
        fmt::format("--qat applies to mode static, and this is mode {}; leave --mode out, or give a mapping "
                    "of its own with --qconfig",
                    chosen.mode));
  if (options.calib.empty()) return;
  if (!chosen.qat)
    throw UsageError("--calib applies to --qat; the data for others is read by 'tsq calibrate'");
  if (chosen.recipe != "best")
    throw UsageError("--calib applies to recipe best, and this is recipe fx; leave --calib out");
}

/// For training: the layers that recipe best would leave float stay so, where there is data to tell by.
Prepared prepared_to_train(const PrepareOptions& options, const Configuration& chosen,
                           const torch::jit::Module& model) {
  if (!rounds_in_training(chosen.mapping)) {
    throw Error(ErrorCode::BadConfig,
                "no QConfig of the mapping has a fake quantize class: nothing would be rounded in training",
                "give a mapping for training, as 'tsq qconfig show best_qat_x86' prints it");
  }
  const tsq::PrepareOptions prepare =
      detail::with_recipe(tsq::PrepareOptions{.custom = chosen.custom}, chosen.recipe);
  if (options.calib.empty()) return prepare_qat(model, chosen.mapping, chosen.backend, prepare);
  const std::vector<Sample> samples = load_samples(options.calib, model, "forward");
  return prepare_qat(model, without_float_layers(chosen.mapping, model, chosen.backend, samples, prepare),
                     chosen.backend, prepare);
}

/// What a frozen file has lost.
std::vector<std::string> notes_on(const PrepareOptions& options, const torch::jit::Module& model) {
  if (!options.configuration.qat || model.parameters().size() > 0) return {};
  return {
      "the file is frozen: its constants train as parameters, and batch norms that freezing folded stay "
      "folded"};
}

std::string notes_text(const std::vector<std::string>& notes) {
  std::string text;
  for (const std::string& note : notes) text += fmt::format("  note       {}\n", note);
  return text;
}

bool is_reference(const std::string& path) {
  const nlohmann::json metadata = read_metadata(path);
  return metadata.is_object() && metadata.value("stage", "") == "reference";
}

/// What was configured when the reference model was made stays.
void prepare_reference(const PrepareOptions& options, const Session& session) {
  std::vector<std::string> given = options.configuration.files();
  given.insert(given.end(), {options.calib, options.configuration.backend});
  if (std::ranges::any_of(given, [](const std::string& option) { return !option.empty(); }))
    throw UsageError(
        fmt::format("'{}' is a reference model, which has its configuration: leave all options but --qat out",
                    options.model));
  OutputFiles files(session);
  Steps steps(session);
  const Reference reference =
      steps.run("load", [&](const Progress&) { return Reference::load(options.model); });
  const torch::jit::Module module =
      steps.run("prepare", [&](const Progress&) { return reference_to_train(reference); });
  files.write(options.output, [&](const std::string& place) { save(module, place); });
  files.commit();
  const std::size_t count = parameters_to_train(module).size();
  print_result(
      session,
      fmt::format("'{}' prepared for training: '{}'\n  parameters {}; ranges and the scales of weights "
                  "stay as they are\n",
                  options.model, options.output, count),
      {{"model", options.model},
       {"output", options.output},
       {"parameters", count},
       {"steps", seconds_json(steps.seconds())}});
}

void run_prepare(const PrepareOptions& options, const Session& session) {
  if (options.configuration.qat && is_reference(options.model)) return prepare_reference(options, session);
  OutputFiles files(session);
  check_training_options(options);
  const Configuration chosen = configuration(options.configuration);
  Steps steps(session);
  const ModelFile model = load_float_model(options.model, steps, session);
  const Prepared prepared = steps.run("prepare", [&](const Progress&) {
    return options.configuration.qat ? prepared_to_train(options, chosen, model.module)
                                     : prepared_model(model.module, chosen);
  });
  files.write(options.output,
              [&](const std::string& place) { prepared.save(place, read_extra_files(options.model)); });
  files.commit();
  const std::vector<std::string> notes = notes_on(options, model.module);
  print_result(session,
               fmt::format("'{}' prepared for {}: '{}'\n{}{}{}", options.model, chosen.backend.name(),
                           options.output, operator_summary_text(prepared.report()),
                           warnings_text(prepared.report()), notes_text(notes)),
               {{"model", options.model},
                {"output", options.output},
                {"backend", chosen.backend.name()},
                {"operators", operator_summary(prepared.report())},
                {"warnings", warnings_json(prepared.report())},
                {"notes", notes},
                {"steps", seconds_json(steps.seconds())}});
}

void add_prepare_options(const Command& command, PrepareOptions& options) {
  add_options(command,
              {required(input({"MODEL.pt", into(options.model),
                               "The float model, a TorchScript file; with --qat also a reference model"})),
               required(output(
                   {"-o,--output", into(options.output), "The prepared model to write", "PREPARED.pt"}))});
  add_configuration_options(command, options.configuration);
  add_options(
      command,
      {{"--qat", into(options.configuration.qat),
        "Prepare for quantization-aware training: fake quantize modules in place of observers, "
        "parameters and train() as in MODEL.pt"},
       input({"--calib", into(options.calib),
              "With --qat, recipe best: data by which it is decided which layers stay float", "DATA.pt"})});
}

}  // namespace

void add_prepare(CLI::App& app, Session& session) {
  add_command<PrepareOptions>(app, session, kPrepareHelp, add_prepare_options, run_prepare);
}

}  // namespace tsq::cli
