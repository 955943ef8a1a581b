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
        "  tsq lower reference.pt --output model.int8.pt\n"
        "  tsq lower reference.pt --target fused --output model.fused.pt\n\n"
        "The backend is the one that the reference model was converted for."};

struct LowerOptions {
  std::string model{};
  std::string output{};
  ConfigurationOptions configuration{};
  TrialOptions trial{};
};

struct Targets {
  LoweringTarget placed{LoweringTarget::Stock};  ///< what layers were left float, or kept int8, for
  LoweringTarget lowered{LoweringTarget::Stock};
};

Targets targets_of(const LowerOptions& options) {
  const LoweringTarget placed =
      lowering_target_from_name(metadata_of_step(options.model).value("target", "stock"));
  const auto& chosen = options.configuration.target;
  return {.placed = placed, .lowered = chosen ? lowering_target_from_name(*chosen) : placed};
}

/// What it costs that a reference was placed for another target.
std::string placement_text(const Targets& targets) {
  if (targets.placed == targets.lowered) return {};
  const bool is_fused = targets.lowered == LoweringTarget::Fused;
  return fmt::format(
      "  note       the reference was placed for target {}: {}; 'tsq prepare --target {}' places it anew\n",
      to_string(targets.placed),
      is_fused
          ? "layers stay float that LibTorch's int8 kernels are slow or wrong with, though a program could "
            "compute them in int8"
          : "layers are int8 that LibTorch's int8 kernels are slower with than float, or less accurate",
      to_string(targets.lowered));
}

void run_lower(const LowerOptions& options, const Session& session) {
  OutputFiles files(session);
  Steps steps(session);
  const Reference reference =
      steps.run("load", [&](const Progress&) { return Reference::load(options.model); });
  const BackendConfig backend = backend_for(options.configuration, options.model);
  const Targets targets = targets_of(options);
  LoweringOptions lowering = lowering_options(options.configuration);
  lowering.target = targets.lowered;
  const std::vector<Sample> samples = samples_if_given(options.trial.data, reference.module());
  const TriedStep lowered = steps.run("lower", [&](const Progress&) {
    return lower_and_try(reference, backend, lowering, {.samples = samples, .force = options.trial.force});
  });
  files.write(options.output, [&](const std::string& place) {
    save(lowered.module(), place, read_extra_files(options.model));
  });
  files.commit();
  print_result(session,
               fmt::format("'{}' lowered for {}{}: '{}'\n{}{}", options.model, backend.name(),
                           targets.lowered == LoweringTarget::Fused ? " and fused programs" : "",
                           options.output, step_trial_text(lowered), placement_text(targets)),
               {{"model", options.model},
                {"output", options.output},
                {"backend", backend.name()},
                {"target", to_string(targets.lowered)},
                {"placed_for", to_string(targets.placed)},
                {"trial", step_trial_json(lowered)},
                {"reload_seconds", lowered.trial.reload_seconds},
                {"steps", seconds_json(steps.seconds())}});
}

void add_lower_options(const Command& command, LowerOptions& options) {
  add_options(
      command,
      {required(input({"REF.pt", into(options.model), "A model from 'tsq convert'"})),
       required(output({"-o,--output", into(options.output), "The quantized model to write", "OUT.pt"}))});
  add_backend_options(command, options.configuration);
  add_options(command,
              {{"--target", into(options.configuration.target),
                "What runs the model: LibTorch's kernels, or fused programs (default: what the reference "
                "was placed for)",
                "stock|fused", one_of({"stock", "fused"})}});
  add_lowering_options(command, options.configuration);
  add_trial_options(command, options.trial);
}

}  // namespace

void add_lower(CLI::App& app, Session& session) {
  add_command<LowerOptions>(app, session, kLowerHelp, add_lower_options, run_lower);
}

}  // namespace tsq::cli
