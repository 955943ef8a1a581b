#pragma once

#include <tsq/backend_config.h>
#include <tsq/recipe.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "trial/finish.h"

namespace tsq::cli {

/// Under this many dB a result is poor.
inline constexpr double kPoorDb = 20;

/// What the command knows of a finished model beside what its trial has shown.
struct VerdictContext {
  uint64_t model_bytes{0};
  std::optional<Trial> unseen{};  ///< of models that were not calibrated on the samples, where known
  bool has_goal{false};
  bool samples_are_calibration{false};  ///< it was tried on what it was calibrated on
  Recipe recipe{Recipe::Best};
  const BackendConfig& backend;
  bool timing_was_asked_for{true};
};

/// How a quantized model does against the float one, and what of it disappoints.
class Verdict {
 public:
  /// Lines of the summary.
  [[nodiscard]] std::string text() const { return text_; }
  /// One sentence each with its remedy.
  [[nodiscard]] const std::vector<std::string>& warnings() const noexcept { return warnings_; }
  /// Notes and warnings, a line each.
  [[nodiscard]] std::string remarks_text() const;
  [[nodiscard]] const nlohmann::json& to_json() const noexcept { return json_; }

 private:
  friend Verdict verdict_of(const detail::Finished& finished, const VerdictContext& context);
  std::string text_{};
  std::vector<std::string> warnings_{};
  std::vector<std::string> notes_{};
  nlohmann::json json_{};
};

Verdict verdict_of(const detail::Finished& finished, const VerdictContext& context);

/// What was left float after a trial, a line for each cause.
std::string changes_text(const std::vector<detail::Change>& changes);
/// A list of {"cause", "layers", "text"}.
nlohmann::json changes_json(const std::vector<detail::Change>& changes);

}  // namespace tsq::cli
