#pragma once

#include "runtime/program/resolve.h"

namespace tsq::runtime {

/// Operations that one primitive computes become one: functions, sums and products after a layer its
/// post-ops, conversions the dtype that an operation writes. What the model computes stays the same, but for
/// values that nobody reads any more.
ResolvedModel with_fused_operations(ResolvedModel resolved);

}  // namespace tsq::runtime
