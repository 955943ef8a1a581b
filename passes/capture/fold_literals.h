#pragma once

#include "ir/graph_module.h"

namespace tsq::passes {

/// Tensors that a model makes of constants, for sums and products, become attributes, as FX evaluates them
/// when it traces: they can be quantized.
///   x + torch.tensor([1., 2.])   →   x + self.literal
void fold_literals(ir::GraphModule& gm);

}  // namespace tsq::passes
