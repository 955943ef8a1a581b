#pragma once

#include <cstdint>
#include <string>

namespace tsq {

/// What a process may use while it loads a file.
struct LoadLimits {
  std::int64_t bytes{0};  ///< of memory, beyond what the process has
  int seconds{0};         ///< of processor time
};

/// Limits that a sound file stays within: 2 GB and eight times the file's size, and 8 s and one more for each
/// 20 MB of it.
LoadLimits load_limits(const std::string& path);

}  // namespace tsq
