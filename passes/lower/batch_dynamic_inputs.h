#pragma once

#include "ir/graph_module.h"

namespace tsq::passes {

/// Samples without the dimension of a batch: kernels that quantize their input when they run take batches
/// only, and whether there is a batch is known only then.
///   y = linear_dynamic(x, packed, true)   →   lacks_batch = dim(x) < 2
///                                             batch = unsqueeze(x, 0) if lacks_batch else x
///                                             z = linear_dynamic(batch, packed, true)
///                                             y = squeeze(z, 0) if lacks_batch else z
void batch_dynamic_inputs(ir::GraphModule& gm);

}  // namespace tsq::passes
