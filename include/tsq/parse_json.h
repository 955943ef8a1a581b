#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string_view>

namespace tsq {

/// The longest text that parse_json reads: its values take up to thirty times as much memory.
inline constexpr std::size_t kLongestJson = std::size_t{32} << 20U;

/// Reads JSON text. Throws Error(BadConfig) in one sentence with line and column; a key that stands twice in
/// one object, more than 64 levels of nesting, a number that no double holds and a text longer than
/// kLongestJson are errors as well. `what` names the source: "qconfig.json".
nlohmann::json parse_json(std::string_view text, std::string_view what);

}  // namespace tsq
