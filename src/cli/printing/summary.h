#pragma once

#include <tsq/report.h>

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tsq::cli {

/// What the decision report says in a few lines: how many operators were quantized, and why the others were
/// not.
nlohmann::json operator_summary(const Report& report);
/// The same for people, in at most twenty lines: operators of one kind whose names and reasons differ in
/// numbers alone stand together. `all` is the option that lists all of them.
std::string operator_summary_text(const Report& report, std::string_view all = "--json");

/// What the user should look at: entries of the mapping that match nothing.
nlohmann::json warnings_json(const Report& report);
std::string warnings_text(const Report& report);

/// The layers whose observers saw no data as a line for people, empty when there are none.
std::string unobserved_text(const Report& report);

nlohmann::json seconds_json(const std::vector<std::pair<std::string, double>>& seconds);
/// "load 0.31 s, prepare 0.52 s".
std::string seconds_text(const std::vector<std::pair<std::string, double>>& seconds);

}  // namespace tsq::cli
