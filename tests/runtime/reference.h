#pragma once

#include <vector>

#include "runtime/support.h"

namespace tsq::runtime::test {

/// The model's outputs, computed in double precision as docs/runtime.md defines each operation.
std::vector<Tensor> reference(const Model& model, const std::vector<Tensor>& inputs,
                              const Shape& integers = {});

}  // namespace tsq::runtime::test
