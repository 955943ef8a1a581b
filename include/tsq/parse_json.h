#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

namespace tsq {

/// Reads JSON text. Throws Error(BadConfig) in one sentence with line and column; a key that stands twice in
/// one object is an error as well. `what` names the source: "qconfig.json".
nlohmann::json parse_json(std::string_view text, std::string_view what);

}  // namespace tsq
