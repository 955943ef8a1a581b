#pragma once

#include "ir/graph.h"

namespace tsq::operators {

/// Whether a value may be TorchScript's uninitialized one, which break, continue and an early return leave on
/// the way that is not taken. Nobody reads it there; an operator that stands where it is made would.
[[nodiscard]] bool may_be_no_value(const ir::Value* value);

}  // namespace tsq::operators
