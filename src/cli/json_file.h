#pragma once

#include <fmt/format.h>
#include <tsq/error.h>

#include <nlohmann/json.hpp>
#include <string>

namespace tsq::cli {

/// Reads a JSON file. Throws Error(BadConfig) naming the file and the line, also for a key that stands twice
/// in one object and for nesting deeper than any configuration has.
nlohmann::json read_json(const std::string& path);

/// Reads `Config` by its from_dict; every refusal names the file.
template <typename Config>
Config read_config(const std::string& path) {
  const nlohmann::json json = read_json(path);
  try {
    return Config::from_dict(json);
  } catch (const Error& e) {
    throw Error(e.code(), fmt::format("'{}': {}", path, e.problem()), e.remedy(), e.where());
  } catch (const nlohmann::json::exception& e) {
    throw Error(ErrorCode::BadConfig, fmt::format("'{}': {}", path, e.what()));
  }
}

}  // namespace tsq::cli
