#pragma once

#include "ir/graph_module.h"

namespace tsq::passes {

/// Results of comparisons are not fake-quantized: FX observes them too and then stops at the fused operator,
/// which takes float32 alone.
///   c = gt(x, 0); o = observe(c); y = mul(x, o)   →   c = gt(x, 0); y = mul(x, c)
void leave_conditions(ir::GraphModule& gm);

}  // namespace tsq::passes
