#pragma once

#include <ATen/core/ivalue.h>

#include <vector>

namespace tsq {

/// One sample: the arguments of forward, in order.
using Sample = std::vector<c10::IValue>;

}  // namespace tsq
