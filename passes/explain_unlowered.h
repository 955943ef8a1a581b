#pragma once

#include <tsq/report.h>

#include "ir/graph_module.h"

namespace tsq::passes {

/// Says in the report of a lowered graph why observed operators became no kernel: they are computed in float
/// between dequantize and quantize. Operators that have a kernel or a reason keep it.
void explain_unlowered(const ir::GraphModule& gm, Report& report);

}  // namespace tsq::passes
