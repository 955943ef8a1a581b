#pragma once

#include <nlohmann/json.hpp>

#include "pipeline/stage.h"

namespace tsq::detail {

/// What tsq writes into a file of this stage: versions, backend, engine, configuration.
nlohmann::json metadata_of(const Stage& stage, const char* name);
/// The same with all that prepare was given, from which the stage can be made again.
nlohmann::json continuation_of(const Stage& stage, const char* name);

}  // namespace tsq::detail
