#pragma once

#include <cstdint>
#include <functional>
#include <optional>

namespace tsq::cli {

/// The largest resident memory of a child process that does `work`, less what it has before; nothing when the
/// work throws. The process must not have computed with LibTorch before: its threads do not survive a fork.
std::optional<uint64_t> peak_memory(const std::function<void()>& work);

}  // namespace tsq::cli
