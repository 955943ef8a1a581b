#pragma once

#include <nlohmann/json.hpp>

#include "pipeline/stage.h"

namespace tsq::detail {

/// What tsq writes into a file of this stage: versions, backend, engine, configuration.
nlohmann::json metadata_of(const Stage& stage, const char* name);
/// The same with all that prepare was given, from which the stage can be made again.
nlohmann::json continuation_of(const Stage& stage, const char* name);

/// Whether this tsq reads files with such a continuation: their layout has a number.
bool is_layout_known(const nlohmann::json& continuation);
/// A hash of a continuation but for the numbers of samples: what the observers of a file belong to.
std::string fingerprint_of(nlohmann::json continuation);

}  // namespace tsq::detail
