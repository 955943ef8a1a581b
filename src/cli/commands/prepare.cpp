#include <fmt/format.h>
#include <torch/script.h>
#include <tsq/train.h>

#include <nlohmann/json.hpp>

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
        "  tsq prepare --qat model.pt --recipe fx --backend x86 --output to_train.pt\n"
        "  tsq convert trained.pt --output reference.pt"};

struct PrepareOptions {
  std::string model{};
  std::string output{};
  ConfigurationOptions configuration{};
};

void run_prepare(const PrepareOptions& options, const Session& session) {
  OutputFiles files{options.configuration.files(), {options.model}};
  files.claim(options.output);
  if (options.configuration.qat && options.configuration.mode != "static")
    throw UsageError(
        fmt::format("--qat applies to mode static, and this is mode {}; leave --mode out, or give a mapping "
                    "of its own with --qconfig",
                    options.configuration.mode));
  const Configuration chosen = configuration(options.configuration);
  Steps steps(session);
  const ModelFile model = load_float_model(options.model, steps, session);
  const Prepared prepared = steps.run("prepare", [&](const Progress&) {
    if (options.configuration.qat)
      return prepare_qat(model.module, chosen.mapping, chosen.backend,
                         {.custom = chosen.custom, .recipe = chosen.recipe});
    return prepared_model(model.module, chosen);
  });
  files.write(options.output,
              [&](const std::string& place) { prepared.save(place, read_extra_files(options.model)); });
  files.commit();
  print_result(
      session,
      fmt::format("'{}' prepared for {}: '{}'\n{}{}", options.model, chosen.backend.name(), options.output,
                  operator_summary_text(prepared.report()), warnings_text(prepared.report())),
      {{"model", options.model},
       {"output", options.output},
       {"backend", chosen.backend.name()},
       {"operators", operator_summary(prepared.report())},
       {"warnings", warnings_json(prepared.report())},
       {"steps", seconds_json(steps.seconds())}});
}

void add_prepare_options(CLI::App& command, PrepareOptions& options) {
  add_options(
      command,
      {required({"MODEL.pt", into(options.model), "The float model, a TorchScript file"}),
       required({"-o,--output", into(options.output), "The prepared model to write", "PREPARED.pt"})});
  add_configuration_options(command, options.configuration);
  add_options(command,
              {{"--qat", into(options.configuration.qat),
                "Prepare for quantization-aware training: fake quantize modules in place of observers, "
                "parameters and train() as in MODEL.pt"}});
}

}  // namespace

void add_prepare(CLI::App& app, Session& session) {
  add_command<PrepareOptions>(app, session, kPrepareHelp, add_prepare_options, run_prepare);
}

}  // namespace tsq::cli
