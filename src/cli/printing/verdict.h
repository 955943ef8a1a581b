#pragma once

#include <tsq/quantize_model.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace tsq::cli {

/// What the command knows of a quantized model beside what the library says of it.
struct VerdictContext {
  bool samples_are_calibration{false};  ///< it was tried on what it was calibrated on
  const BackendConfig& backend;
};

/// How a quantized model does against the float one, and what of it disappoints.
struct Verdict {
  std::string text{};                   ///< lines of the summary
  std::vector<std::string> warnings{};  ///< one sentence each with its remedy
  std::vector<std::string> notes{};     ///< the same
  nlohmann::json json{};

  /// Notes and warnings, a line each.
  [[nodiscard]] std::string remarks_text() const;
};

Verdict verdict_of(const Quantized& quantized, const VerdictContext& context);

/// The line on a trial that found no SQNR.
std::string text_without_sqnr(const Trial& trial);
/// " of logits, the worst of 3 outputs,"; empty of one output.
std::string of_worst_output_text(const Trial& trial);

/// What was left float after a trial, a line for each cause.
std::string left_float_text(const std::vector<LeftFloat>& left_float);
/// A list of {"cause", "layers", "text"}.
nlohmann::json left_float_json(const std::vector<LeftFloat>& left_float);

}  // namespace tsq::cli
