#pragma once

#include "ir/graph_module.h"

namespace tsq::passes {

/// What the graph computes from parameters and buffers alone, and is no larger than they are, becomes a
/// constant; branches that constants decide are removed.
///   conv(x, weight_norm(v, g))   →   conv(x, w)
void fold_constants(ir::GraphModule& gm);

}  // namespace tsq::passes
