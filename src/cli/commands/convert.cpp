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

constexpr CommandHelp kConvertHelp{
    .name = "convert",
    .summary = "Step 3 of quantize: turn a calibrated model into its reference model",
    .examples =
        "  tsq convert calibrated.pt --output reference.pt\n\n"
        "The reference model is float operators between quantize and dequantize: it runs on every LibTorch "
        "and returns the\n"
        "numbers that the lowered model is meant to compute. The backend is the one that the model was "
        "prepared for."};

struct ConvertCommandOptions {
  std::string model{};
  std::string output{};
  ConfigurationOptions configuration{};
  ConvertConfigurationOptions convert{};
  std::optional<double> decibel_price{};  ///< in percent
  TrialOptions trial{};
  bool allow_uncalibrated{false};
};

/// A trained file that Python saved says only inside of its module what it was made for.
BackendConfig backend_of(const ConfigurationOptions& options, const std::string& path,
                         const Prepared& prepared) {
  const bool is_given = !options.backend.empty() || !options.backend_config.empty();
  return prepared.trains() && !is_given ? prepared.backend() : backend_for(options, path);
}

void run_convert(const ConvertCommandOptions& options, const Session& session) {
  OutputFiles files(session);
  ConvertOptions at_convert = convert_options(options.convert);
  at_convert.custom.set_allow_uncalibrated(options.allow_uncalibrated);
  at_convert.decibel_price = share_of(options.decibel_price);
  Steps steps(session);
  const Prepared prepared = steps.run("load", [&](const Progress&) { return Prepared::load(options.model); });
  const BackendConfig backend = backend_of(options.configuration, options.model, prepared);
  const std::vector<Sample> samples = samples_if_given(options.trial.data, prepared.float_model());
  const TriedStep converted = steps.run("convert", [&](const Progress& progress) {
    at_convert.progress = progress;
    return convert_and_try(prepared, backend, at_convert, {.samples = samples, .force = options.trial.force});
  });
  const Reference& reference = *converted.reference;
  files.write(options.output,
              [&](const std::string& place) { reference.save(place, read_extra_files(options.model)); });
  if (!options.convert.plan_output.empty())
    files.write_json(options.convert.plan_output, reference.plan().to_dict());
  files.commit();
  print_result(session,
               fmt::format("'{}' converted for {}: '{}'\n{}{}{}", options.model, backend.name(),
                           options.output, operator_summary_text(reference.report()),
                           unobserved_text(reference.report()), step_trial_text(converted)),
               {{"model", options.model},
                {"output", options.output},
                {"backend", backend.name()},
                {"operators", operator_summary(reference.report())},
                {"unobserved_layers", reference.report().unobserved_layers},
                {"trial", step_trial_json(converted)},
                {"reload_seconds", converted.trial.reload_seconds},
                {"steps", seconds_json(steps.seconds())}});
}

void add_convert_command_options(const Command& command, ConvertCommandOptions& options) {
  add_options(
      command,
      {required(input({"CALIBRATED.pt", into(options.model), "A model from 'tsq calibrate'"})),
       required(output({"-o,--output", into(options.output), "The reference model to write", "REF.pt"}))});
  add_backend_options(command, options.configuration);
  add_convert_options(command, options.convert);
  add_trial_options(command, options.trial);
  add_options(command, {decibel_price_option(options.decibel_price),
                        {"--allow-uncalibrated", into(options.allow_uncalibrated),
                         "Convert a model that has seen no data: all scales are 1"}});
}

}  // namespace

void add_convert(CLI::App& app, Session& session) {
  add_command<ConvertCommandOptions>(app, session, kConvertHelp, add_convert_command_options, run_convert);
}

}  // namespace tsq::cli
