#pragma once

#include "passes/capture/dtypes/dtype_origins.h"
#include "passes/capture/dtypes/replaced_dtypes.h"

namespace tsq::passes {

/// Casts the inputs of a graph of the model to float, and its outputs to the dtypes that they have in the
/// user's model. `told`: of the dtypes those in which layers compute, whatever the model is given. Throws
/// Error(Unsupported) for a value whose tensors cannot be reached.
///   return f(x)   →   y = f(float(x)); return half(y)
void cast_boundary(ir::Model& model, ir::Graph& graph, const Dtypes& replaced, const Dtypes& told,
                   const DtypeOrigins& origins);

}  // namespace tsq::passes
