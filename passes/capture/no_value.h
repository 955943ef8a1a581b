#pragma once

#include "ir/graph_module.h"

namespace tsq::passes {

/// Whether a value may be TorchScript's uninitialized one, which break, continue and an early return leave on
/// the way that is not taken. Nobody reads it there; an operator that stands where it is made would.
bool may_be_no_value(const ir::Value* value);

/// Observers of such values stand where these are read.
///   a = obs(b); if taken: linear(a)   →   if taken: linear(obs(b))
void observe_where_read(ir::GraphModule& gm);

}  // namespace tsq::passes
