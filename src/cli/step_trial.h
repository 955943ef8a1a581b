#pragma once

#include <tsq/trial.h>

#include <optional>
#include <string>

#include "cli/progress.h"
#include "cli/session.h"

namespace tsq::cli {

/// The options of a step that tries what it is about to write.
struct TrialOptions {
  std::string data{};  ///< samples; empty: the result is only saved and loaded
  bool force{false};
};
void add_trial_options(CLI::App& command, TrialOptions& options);

/// Tries a step's result against the model that it was made of. None without samples. Throws
/// Error(Unsupported) for a result that fails, unless it is forced.
std::optional<Trial> try_step(const TrialOptions& options, const torch::jit::Module& model,
                              const torch::jit::Module& candidate, const BackendConfig& backend,
                              Steps& steps);

/// Lines of the summary.
std::string step_trial_text(const std::optional<Trial>& trial);

}  // namespace tsq::cli
