#pragma once

#include <tsq/quantize.h>

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

namespace tsq::cli {

/// What the decision report says in a few lines: how many operators were quantized, and why the others were
/// not.
nlohmann::json operator_summary(const Report& report);
std::string operator_summary_text(const Report& report);

/// Names of the observers of a prepared model that no value has reached: their qparams would be arbitrary.
std::vector<std::string> observers_without_data(const torch::jit::Module& prepared);
/// The same as a sentence for people, empty when there are none.
std::string without_data_text(const std::vector<std::string>& observers);

nlohmann::json seconds_json(const std::vector<std::pair<std::string, double>>& seconds);
/// "load 0.31 s, prepare 0.52 s".
std::string seconds_text(const std::vector<std::pair<std::string, double>>& seconds);

}  // namespace tsq::cli
