#pragma once

#include <tsq/custom_module.h>

#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "config/json.h"

/// Modules in TorchScript, as JSON holds them: {"file": …}, {"source": …}, or {"archive": …} in what tsq
/// saves.
namespace tsq {

/// `what` with its article: "a reference module". `more` are further keys that the object may have.
ModuleDefinition read_module_definition(const JsonValue& at, std::string_view what,
                                        std::span<const std::string_view> more = {});

nlohmann::json to_json(const ModuleDefinition& definition);

/// A document in which archives, the contents of files, take the places of these files. Throws
/// Error(BadConfig) for a file that cannot be read.
nlohmann::json with_archives(nlohmann::json document);

}  // namespace tsq
