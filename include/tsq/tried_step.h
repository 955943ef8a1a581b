#pragma once

#include <tsq/backend_config.h>
#include <tsq/custom_config.h>
#include <tsq/left_float.h>
#include <tsq/lowering_options.h>
#include <tsq/progress.h>
#include <tsq/qconfig_mapping.h>
#include <tsq/quantize.h>
#include <tsq/report.h>
#include <tsq/sample.h>
#include <tsq/trial.h>

#include <optional>
#include <span>
#include <vector>

namespace torch::jit {
struct Module;
}

namespace tsq {

/// The result of one step that has been tried as it will be loaded.
struct TriedStep {
  std::optional<Reference> reference{};  ///< of converting
  Lowered model;                         ///< of lowering; of converting: the reference's module
  Trial trial{};
  std::vector<LeftFloat> left_float{};  ///< what was left out because it cannot run

  [[nodiscard]] const torch::jit::Module& module() const& noexcept { return model.module(); }
  [[nodiscard]] torch::jit::Module module() &&;
  [[nodiscard]] const Report& report() const& noexcept { return model.report(); }
  [[nodiscard]] Report report() &&;
};

/// What a step is tried on.
struct StepTrial {
  std::span<const Sample> samples{};  ///< none: the result is only saved and loaded
  bool force{false};                  ///< what the trial shows is told, and changes nothing
};

/// Converts a calibrated model and tries the reference beside the float model. Layers with which it fails
/// stay float. Throws Error(Unsupported) where that does not help.
TriedStep convert_and_try(const Prepared& prepared, const BackendConfig& backend,
                          const ConvertOptions& options, const StepTrial& trial);

/// Lowers a reference model and tries the result beside it. Operators whose kernels fail stay as the
/// reference has them. Throws Error(Unsupported) where that does not help.
TriedStep lower_and_try(const Reference& reference, const BackendConfig& backend, LoweringOptions options,
                        const StepTrial& trial);

}  // namespace tsq
