#pragma once

#include <tsq/custom_module.h>

#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "config/json.h"

/// Custom modules as JSON holds them.
namespace tsq {

/// "static", "dynamic" or "weight_only", a key of `at`.
QuantType read_quant_type(const JsonValue& at, std::string_view name);

/// The name of a registered class, or an object that defines one: {"name": …, "source": …}. `what` with its
/// article: "an observed module". `needs_name`: others speak of it, so that one out of a file needs a name.
CustomModule read_custom_module(const JsonValue& at, std::string_view what, bool needs_name);

nlohmann::json to_json(const CustomModule& module);

}  // namespace tsq
