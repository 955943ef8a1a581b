#pragma once

#include <string>

#include "ir/model.h"
#include "passes/flow.h"

namespace tsq::passes {

/// What stands in a model after a room that may not be there: "an observer after the room convert"; empty
/// where there is none. Developer builds ask after each room.
[[nodiscard]] std::string illegal_after(Room room, const ir::Model& model);

}  // namespace tsq::passes
