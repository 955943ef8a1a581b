#pragma once

#include <torch/csrc/jit/api/module.h>

#include "passes/capture/dtypes/float_tensors.h"
#include "passes/capture/dtypes/replaced_dtypes.h"

/// Dtypes that code tells, and tensors that it holds.
namespace tsq::passes {

/// A constant tensor becomes one in float.
void replace_constant(ir::Node* node, FloatTensors& tensors);
/// A node that is told a dtype that is replaced is told the other one.
void replace_told_dtype(ir::Node* node, const Dtypes& replaced);

/// A leaf module whose code tells dtypes or holds tensors, as tracing writes it, gets code of its own.
void replace_in_code(torch::jit::Module& module, const Dtypes& replaced, FloatTensors& tensors);

}  // namespace tsq::passes
