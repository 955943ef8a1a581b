#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/primitives/compilation.h"

/// One piece of memory for everything between the steps of a program.
namespace tsq::runtime {

struct Arena {
  std::int64_t bytes = 0;
  std::vector<std::int64_t> offsets{};  ///< of each buffer; -1 for those that lie elsewhere or are not used
};

/// Buffers that are in use at the same step do not overlap; those that are not may.
Arena plan_arena(std::span<const Buffer> buffers, std::span<const Step> steps);

}  // namespace tsq::runtime
