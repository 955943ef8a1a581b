#pragma once

#include "ir/graph_module.h"

namespace tsq::passes {

/// Puts an observer in front of observed layers that read a value of which nothing tells before the model
/// runs that it is a float tensor: out of a dict, or made of sizes and numbers and written in place. FX
/// leaves these inputs in float, and the layer with them.
///   d["out"] → conv   →   d["out"] → observer → conv
void observe_layer_inputs(ir::GraphModule& gm);

}  // namespace tsq::passes
