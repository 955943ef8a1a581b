#include <fmt/format.h>
#include <torch/script.h>

#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/commands/commands.h"
#include "cli/commands/configuration.h"
#include "cli/commands/step_trial.h"
#include "cli/printing/progress.h"
#include "cli/printing/summary.h"
#include "cli/process/output_files.h"

namespace tsq::cli {
namespace {

constexpr const char* kLowerSummary =
    "Step 4 of quantize: turn a reference model into the engine's int8 kernels";
constexpr const char* kLowerExamples =
    "  tsq lower reference.pt --output model.int8.pt\n\n"
    "The backend is the one that the reference model was converted for.";

struct LowerOptions {
  std::string model{};
  std::string output{};
  ConfigurationOptions configuration{};
  TrialOptions trial{};
};

void run_lower(const LowerOptions& options, const Session& session) {
  std::vector<std::string> inputs = options.configuration.files();
  inputs.push_back(options.model);
  if (!options.trial.data.empty()) inputs.push_back(options.trial.data);
  OutputFiles files(std::move(inputs));
  files.claim(options.output);
  Steps steps(session);
  const Reference reference =
      steps.run("load", [&](const Progress&) { return Reference::load(options.model); });
  const BackendConfig backend = backend_for(options.configuration, options.model);
  const std::vector<Sample> samples = trial_samples(options.trial, reference.module());
  const TriedStep lowered = steps.run("lower", [&](const Progress&) {
    return lower_and_try(reference, backend, lowering_options(options.configuration),
                         {.samples = samples, .force = options.trial.force});
  });
  files.write(options.output, [&](const std::string& place) {
    save(lowered.module(), place, read_extra_files(options.model));
  });
  files.commit();
  if (session.speaks_text()) {
    std::cout << fmt::format("'{}' lowered for {}: '{}'\n", options.model, backend.name(), options.output)
              << step_trial_text(lowered);
  }
  print_json(session, {{"model", options.model},
                       {"output", options.output},
                       {"backend", backend.name()},
                       {"trial", step_trial_json(lowered)},
                       {"steps", seconds_json(steps.seconds())}});
}

}  // namespace

void add_lower(CLI::App& app, Session& session) {
  CLI::App* command = add_command(app, session, "lower", kLowerSummary, kLowerExamples);
  const auto options = std::make_shared<LowerOptions>();
  command->add_option("REF.pt", options->model, "A model from 'tsq convert'")->required()->type_name("");
  command->add_option("-o,--output", options->output, "The quantized model to write")
      ->required()
      ->type_name("OUT.pt");
  add_backend_options(*command, options->configuration);
  add_lowering_options(*command, options->configuration);
  add_trial_options(*command, options->trial);
  command->callback(
      [options, &session] { session.action = [options, &session] { run_lower(*options, session); }; });
}

}  // namespace tsq::cli
