#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace tsq {

/// What nlohmann says of a value, without the number of its error: "type must be string, but is number".
inline std::string json_reason(const nlohmann::json::exception& error) {
  const std::string text = error.what();
  const auto end = text.find("] ");
  return text.starts_with("[json.exception") && end != std::string::npos ? text.substr(end + 2) : text;
}

}  // namespace tsq
