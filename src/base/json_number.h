#pragma once

#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

namespace tsq::detail {

/// JSON knows no infinite numbers: null stands for what is not finite or not known.
inline nlohmann::json finite_or_null(std::optional<double> value) {
  return value && std::isfinite(*value) ? nlohmann::json(*value) : nlohmann::json(nullptr);
}

}  // namespace tsq::detail
