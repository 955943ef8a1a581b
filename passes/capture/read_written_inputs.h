#pragma once

#include "ir/graph_module.h"

namespace tsq::passes {

/// Modules and functions that write their result into their input (`inplace=True`): what reads that input
/// later reads the result, in int8 too, where nothing is written. FX reads what was there before.
///   y = ReLU(x); z = linear(x)   →   y = ReLU(x); z = linear(y)
void read_written_inputs(ir::GraphModule& gm);

}  // namespace tsq::passes
