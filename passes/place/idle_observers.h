#pragma once

#include "passes/context/pass_context.h"

namespace tsq::passes {

/// Removes the observers of which convert would make nothing: those between operators that have no QConfig
/// (K-03), and those that saw no float32. Whether there were any.
bool take_idle_observers_away(ir::Model& model, const PassContext& context);

}  // namespace tsq::passes
