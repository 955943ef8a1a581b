#include "base/available_memory.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <string>

namespace tsq {
namespace {

constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();

/// The number in a file that holds one; none for "max".
std::optional<std::int64_t> number_in(const std::string& path) {
  std::ifstream file(path);
  std::int64_t number = 0;
  return file >> number ? std::optional(number) : std::nullopt;
}

std::int64_t free_on_machine() {
  std::ifstream file("/proc/meminfo");
  std::string name;
  std::int64_t kibibytes = 0;
  for (std::string unit; file >> name >> kibibytes && std::getline(file, unit);) {
    if (name == "MemAvailable:") return kibibytes * 1024;
  }
  return kNoLimit;
}

/// Within a container the files of its group stand at the root.
std::int64_t free_in_group(const std::string& limit, const std::string& usage) {
  const std::optional<std::int64_t> most = number_in(limit);
  const std::optional<std::int64_t> used = number_in(usage);
  return most && used ? std::max<std::int64_t>(*most - *used, 0) : kNoLimit;
}

}  // namespace

std::int64_t memory_limit() {
  const std::int64_t available = std::min(
      {free_on_machine(), free_in_group("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
       free_in_group("/sys/fs/cgroup/memory/memory.limit_in_bytes",
                     "/sys/fs/cgroup/memory/memory.usage_in_bytes")});
  return available == kNoLimit ? available : available / 10 * 8;
}

}  // namespace tsq
