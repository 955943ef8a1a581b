#include "cli/step_trial.h"

#include <fmt/format.h>
#include <torch/script.h>
#include <tsq/data.h>
#include <tsq/error.h>

#include <cmath>

namespace tsq::cli {

void add_trial_options(CLI::App& command, TrialOptions& options) {
  command
      .add_option("--data", options.data,
                  "Samples to try the result on, beside the model that it was made of")
      ->type_name("DATA.pt");
  command.add_flag("--force", options.force, "Write the result even where it fails beside that model");
}

std::optional<Trial> try_step(const TrialOptions& options, const torch::jit::Module& model,
                              const torch::jit::Module& candidate, const BackendConfig& backend,
                              Steps& steps) {
  std::vector<Sample> samples;
  if (!options.data.empty()) samples = load_samples(options.data, model);
  Trial trial =
      steps.run("try", [&](const Progress&) { return try_model(model, candidate, backend, samples); });
  if (trial.fault && !options.force) {
    throw Error(ErrorCode::Unsupported,
                fmt::format("the result fails on sample {}: {}", trial.fault->sample, trial.fault->text),
                "leave the operator float by a QConfigMapping, or write the result anyway with --force");
  }
  if (samples.empty() && !trial.fault) return std::nullopt;
  return trial;
}

std::string step_trial_text(const std::optional<Trial>& trial) {
  if (!trial) return "  trial      loaded, not tried: --data DATA.pt runs it on samples\n";
  if (trial->fault)
    return fmt::format("  warning    written by --force though it fails: {}\n", trial->fault->text);
  if (!trial->sqnr_db)
    return fmt::format("  trial      ran on {} samples; no floating-point output to compare\n",
                       trial->samples);
  return fmt::format(
      "  SQNR       {} on {} samples\n",
      std::isinf(*trial->sqnr_db) ? "no difference" : fmt::format("{:.1f} dB", *trial->sqnr_db),
      trial->samples);
}

}  // namespace tsq::cli
