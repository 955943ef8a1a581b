#include <fmt/format.h>
#include <torch/script.h>

#include <nlohmann/json.hpp>

#include "cli/commands/commands.h"
#include "cli/commands/configuration.h"
#include "cli/commands/step_trial.h"
#include "cli/printing/progress.h"
#include "cli/printing/summary.h"
#include "cli/process/model_file.h"
#include "cli/process/options.h"
#include "cli/process/output_files.h"

namespace tsq::cli {
namespace {

constexpr CommandHelp kLowerHelp{
    .name = "lower",
    .summary = "Step 4 of quantize: turn a reference model into the engine's int8 kernels",
    .examples =
        "  tsq lower reference.pt --output model.int8.pt\n\n"
        "The backend is the one that the reference model was converted for."};

struct LowerOptions {
  std::string model{};
  std::string output{};
  ConfigurationOptions configuration{};
  TrialOptions trial{};
};

void run_lower(const LowerOptions& options, const Session& session) {
  OutputFiles files{options.configuration.files(), {options.model, options.trial.data}};
  files.claim(options.output);
  Steps steps(session);
  const Reference reference =
      steps.run("load", [&](const Progress&) { return Reference::load(options.model); });
  const BackendConfig backend = backend_for(options.configuration, options.model);
  const std::vector<Sample> samples = samples_if_given(options.trial.data, reference.module());
  const TriedStep lowered = steps.run("lower", [&](const Progress&) {
    return lower_and_try(reference, backend, lowering_options(options.configuration),
                         {.samples = samples, .force = options.trial.force});
  });
  files.write(options.output, [&](const std::string& place) {
    save(lowered.module(), place, read_extra_files(options.model));
  });
  files.commit();
  print_result(session,
               fmt::format("'{}' lowered for {}: '{}'\n{}", options.model, backend.name(), options.output,
                           step_trial_text(lowered)),
               {{"model", options.model},
                {"output", options.output},
                {"backend", backend.name()},
                {"trial", step_trial_json(lowered)},
                {"reload_seconds", lowered.trial.reload_seconds},
                {"steps", seconds_json(steps.seconds())}});
}

void add_lower_options(CLI::App& command, LowerOptions& options) {
  add_options(command,
              {required({"REF.pt", into(options.model), "A model from 'tsq convert'"}),
               required({"-o,--output", into(options.output), "The quantized model to write", "OUT.pt"})});
  add_backend_options(command, options.configuration);
  add_lowering_options(command, options.configuration);
  add_trial_options(command, options.trial);
}

}  // namespace

void add_lower(CLI::App& app, Session& session) {
  add_command<LowerOptions>(app, session, kLowerHelp, add_lower_options, run_lower);
}

}  // namespace tsq::cli
