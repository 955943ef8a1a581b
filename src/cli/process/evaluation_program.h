#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace tsq::cli {

/// The last number of a text: "top-1: 0.917 (367 of 400)" yields 400. Digits within a word are none. Empty
/// when there is no number, or "nan" is the last.
std::optional<double> last_number(std::string_view text);

/// Runs `command` in a shell with the model's path in place of each `{}`, or after it, and returns the last
/// number that it prints. Its standard error goes to a file in `scratch`. When a signal ends this program,
/// the command and what it started end as well. Throws Error(BadConfig) when it fails or prints no number.
double evaluate_with(const std::string& command, const std::string& model,
                     const std::filesystem::path& scratch);

}  // namespace tsq::cli
