#pragma once

#include "ir/graph_module.h"

namespace tsq::passes {

/// Constants that the graph would quantize or dequantize in each run are rounded now: the weights of layers
/// that got no kernel, and constants in front of other operators.
///   linear(x, dequantize(quantize(w)))   →   linear(x, w')
void round_constants(ir::GraphModule& gm);

}  // namespace tsq::passes
