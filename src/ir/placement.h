#pragma once

#include <tsq/placement.h>

namespace tsq::ir {

using tsq::Placement;
using tsq::Reason;

}  // namespace tsq::ir
