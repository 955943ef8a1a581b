#pragma once

#include <tsq/placement.h>

namespace tsq::ir {

using tsq::Placement;
using tsq::Reason;

/// Whether operators with a placement compute in an int8 kernel, whatever it returns.
[[nodiscard]] constexpr bool is_in_int8(Placement placement) {
  return placement == Placement::Int8 || placement == Placement::Int8FloatOut;
}

}  // namespace tsq::ir
