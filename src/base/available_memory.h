#pragma once

#include <cstdint>

namespace tsq {

/// What this process may still use, in bytes: 80 % of what the machine has available and its control group
/// (v1 or v2) leaves. A page cache counts as available. A number of the moment; the largest where neither
/// says.
std::int64_t memory_limit();

}  // namespace tsq
