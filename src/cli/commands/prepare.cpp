#include <fmt/format.h>
#include <torch/script.h>
#include <tsq/train.h>

#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/commands/commands.h"
#include "cli/commands/configuration.h"
#include "cli/printing/progress.h"
#include "cli/printing/summary.h"
#include "cli/process/failure.h"
#include "cli/process/model_file.h"
#include "cli/process/output_files.h"

namespace tsq::cli {
namespace {

constexpr const char* kPrepareSummary = "Step 1 of quantize: put observers into a float model";
constexpr const char* kPrepareExamples =
    "  tsq prepare model.pt --backend x86 --output prepared.pt\n"
    "  tsq calibrate prepared.pt --calib data.pt --output calibrated.pt\n"
    "  tsq convert calibrated.pt --output reference.pt\n"
    "  tsq lower reference.pt --output model.int8.pt\n\n"
    "The prepared model is an ordinary TorchScript file: any LibTorch program can run it on its data and "
    "save it again.\n\n"
    "Quantization-aware training, in Python or C++, between prepare and convert:\n"
    "  tsq prepare --qat model.pt --recipe fx --backend x86 --output to_train.pt\n"
    "  tsq convert trained.pt --output reference.pt";

struct PrepareOptions {
  std::string model{};
  std::string output{};
  ConfigurationOptions configuration{};
};

void run_prepare(const PrepareOptions& options, const Session& session) {
  std::vector<std::string> inputs = options.configuration.files();
  inputs.push_back(options.model);
  OutputFiles files(std::move(inputs));
  files.claim(options.output);
  if (options.configuration.qat && options.configuration.mode != "static")
    throw UsageError(
        fmt::format("--qat applies to mode static, and this is mode {}; leave --mode out, or give a mapping "
                    "of its own with --qconfig",
                    options.configuration.mode));
  const Configuration chosen = configuration(options.configuration);
  Steps steps(session);
  const ModelFile model = steps.run("load", [&](const Progress&) { return load_float_model(options.model); });
  tell_devices(model, session);
  const Prepared prepared = steps.run("prepare", [&](const Progress&) {
    if (options.configuration.qat)
      return prepare_qat(model.module, chosen.mapping, chosen.backend,
                         {.custom = chosen.custom, .recipe = chosen.recipe});
    return prepare(model.module, chosen.mapping, chosen.backend,
                   {.custom = chosen.custom, .equalization = chosen.equalization, .recipe = chosen.recipe});
  });
  files.write(options.output,
              [&](const std::string& place) { prepared.save(place, read_extra_files(options.model)); });
  files.commit();
  if (session.speaks_text()) {
    std::cout << fmt::format("'{}' prepared for {}: '{}'\n{}{}", options.model, chosen.backend.name(),
                             options.output, operator_summary_text(prepared.report()),
                             warnings_text(prepared.report()));
  }
  print_json(session, {{"model", options.model},
                       {"output", options.output},
                       {"backend", chosen.backend.name()},
                       {"operators", operator_summary(prepared.report())},
                       {"warnings", warnings_json(prepared.report())},
                       {"steps", seconds_json(steps.seconds())}});
}

}  // namespace

void add_prepare(CLI::App& app, Session& session) {
  CLI::App* command = add_command(app, session, "prepare", kPrepareSummary, kPrepareExamples);
  const auto options = std::make_shared<PrepareOptions>();
  command->add_option("MODEL.pt", options->model, "The float model, a TorchScript file")
      ->required()
      ->type_name("");
  command->add_option("-o,--output", options->output, "The prepared model to write")
      ->required()
      ->type_name("PREPARED.pt");
  add_configuration_options(*command, options->configuration);
  command->add_flag("--qat", options->configuration.qat,
                    "Prepare for quantization-aware training: fake quantize modules in place of observers, "
                    "parameters and train() as in MODEL.pt");
  command->callback(
      [options, &session] { session.action = [options, &session] { run_prepare(*options, session); }; });
}

}  // namespace tsq::cli
