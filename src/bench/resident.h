#pragma once

#include <cstdint>
#include <string_view>

namespace tsq::bench {

/// What this process has in memory, in bytes.
struct Resident {
  uint64_t now{0};
  uint64_t most{0};  ///< since forget_most() or the start
};
Resident resident_from(std::string_view status);
/// Of /proc/self/status.
Resident resident();
/// Lets `most` begin anew.
void forget_most();

}  // namespace tsq::bench
