#pragma once

#include <torch/csrc/jit/api/module.h>

namespace tsq::detail {

/// Whether lengths in the result of `model`'s forward can depend on values: it selects by a condition
/// (`nonzero`, a mask as index, non-maximum suppression), or a number read from a tensor steers it.
bool has_value_dependent_shapes(const torch::jit::Module& model);

}  // namespace tsq::detail
