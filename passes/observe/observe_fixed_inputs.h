#pragma once

#include "ir/graph_module.h"

namespace tsq::passes {

/// The float input of an operator whose output has a fixed range (sigmoid, tanh, softmax) is observed as
/// other values are. FX observes it with the range of the output, which cuts off all that is negative or
/// large.
///   x → observer of 0..1 → sigmoid   →   x → observer → sigmoid
/// Must come after observe(), whose observers of the same value it takes where there are any.
void observe_fixed_inputs(ir::GraphModule& gm);

}  // namespace tsq::passes
