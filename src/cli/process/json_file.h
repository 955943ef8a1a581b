#pragma once

#include <fmt/format.h>
#include <tsq/backend_config.h>
#include <tsq/error.h>
#include <tsq/qconfig_mapping.h>

#include <nlohmann/json.hpp>
#include <string>
#include <type_traits>
#include <vector>

#include "base/json_reason.h"

namespace tsq::cli {

/// Reads a JSON file. Throws Error(BadConfig) naming the file and the line, also for a key that stands twice
/// in one object and for nesting deeper than any configuration has.
nlohmann::json read_json(const std::string& path);

/// Prints what a reader of the file has to say, on standard error.
void print_notes(const std::string& path, const std::vector<std::string>& notes);

/// A configuration out of its dict; what it has to say goes to `notes`.
template <typename Config>
Config read(const nlohmann::json& dict, std::vector<std::string>& notes) {
  if constexpr (std::is_same_v<Config, QConfigMapping> || std::is_same_v<Config, BackendConfig>) {
    return Config::from_dict(dict, notes);
  } else {
    return Config::from_dict(dict);
  }
}

/// Reads `Config` by its from_dict, of what `prepare` makes of the file's JSON; every refusal and every note
/// names the file.
template <typename Config, typename Prepare>
Config read_config(const std::string& path, const Prepare& prepare) {
  nlohmann::json json = read_json(path);
  try {
    prepare(json);
    std::vector<std::string> notes;
    Config config = read<Config>(json, notes);
    print_notes(path, notes);
    return config;
  } catch (const Error& e) {
    throw Error(e.code(), fmt::format("'{}': {}", path, e.problem()), e.remedy(), e.where());
  } catch (const nlohmann::json::exception& e) {
    throw Error(ErrorCode::BadConfig, fmt::format("'{}': {}", path, json_reason(e)));
  }
}

template <typename Config>
Config read_config(const std::string& path) {
  return read_config<Config>(path, [](nlohmann::json&) {});
}

}  // namespace tsq::cli
