#pragma once

#include <tsq/report.h>

#include "ir/graph_module.h"

namespace tsq::passes {

/// The first of several recurrent layers reads its input without rounding, the others keep their int8
/// weights: what they read are states between -1 and 1.
///   LSTM(x) of 3 layers in int8   →   the first in float, two in int8
void read_recurrent_inputs(ir::GraphModule& gm, Report& report);

}  // namespace tsq::passes
