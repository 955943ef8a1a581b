#pragma once

#include "passes/context/pass_context.h"

namespace tsq::passes {

/// settle_unreached for methods beside forward alone, operator by operator: an operator that lacks one of its
/// ranges has none. Whether the model was changed.
bool settle_unreached_methods(ir::Model& model, const PassContext& context);

}  // namespace tsq::passes
