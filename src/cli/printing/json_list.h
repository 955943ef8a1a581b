#pragma once

#include <functional>
#include <nlohmann/json.hpp>

namespace tsq::cli {

/// A list of what `to_json` makes of each element.
template <typename Range, typename ToJson>
nlohmann::json json_list(const Range& range, const ToJson& to_json) {
  nlohmann::json list = nlohmann::json::array();
  for (const auto& element : range) list.push_back(std::invoke(to_json, element));
  return list;
}

}  // namespace tsq::cli
