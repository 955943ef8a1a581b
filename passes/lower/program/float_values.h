#pragma once

#include "ir/model.h"

namespace tsq::passes {

/// Whether a tensor of the graph is known to be float32, by what made it or by what reads it: programs
/// compute in float or int8, and TorchScript does not tell dtypes.
[[nodiscard]] bool is_float_tensor(const ir::Model& model, const ir::Value* value);

/// The dtypes of values that are known to be floats are written as numbers, so that nothing waits for them.
///   prim::dtype(linear(x))   →   6
bool write_known_dtypes(ir::Model& model);

/// Whether a tensor of the graph is known to hold truth values, by what made it or by what reads it.
[[nodiscard]] bool are_truth_values(const ir::Model& model, const ir::Value* value);

}  // namespace tsq::passes
