#pragma once

#include <tsq/machine_profile.h>

#include <memory>

namespace tsq::testing {

/// A machine on which float kernels take a thousand times as long as on others, so that in int8 computes all
/// that may.
std::shared_ptr<const MachineProfile> slow_in_float();

}  // namespace tsq::testing
