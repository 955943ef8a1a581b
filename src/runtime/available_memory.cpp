#include "runtime/available_memory.h"

#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace tsq::runtime {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();
/// What a small call needs is tried even where the system says that hardly anything is left.
constexpr std::int64_t kLowestLimit = std::int64_t{1} << 26;
/// Sums of a few such numbers stay in 64 bits.
constexpr std::int64_t kHighestLimit = std::int64_t{1} << 50;

/// The number in a file that holds one; none for "max", and where there is no such file.
std::optional<std::int64_t> number_in(const fs::path& path) {
  std::ifstream file(path);
  std::int64_t number = 0;
  return file >> number ? std::optional(number) : std::nullopt;
}

/// The number after a name in a file of such lines.
std::optional<std::int64_t> number_after(const fs::path& path, std::string_view name) {
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    std::string word;
    std::int64_t number = 0;
    if (words >> word && word == name && words >> number) return number;
  }
  return std::nullopt;
}

std::int64_t left_of_machine(const fs::path& root) {
  const auto kilobytes = number_after(root / "proc/meminfo", "MemAvailable:");
  return kilobytes ? *kilobytes * 1024 : kNoLimit;
}

/// The files of one version of control groups.
struct GroupFiles {
  const char* limit;
  const char* used;
  std::array<const char*, 2> reclaimable;  ///< names in memory.stat: pages of files, which count as used
};
constexpr GroupFiles kVersion1{
    "memory.limit_in_bytes", "memory.usage_in_bytes", {"total_inactive_file", "total_active_file"}};
constexpr GroupFiles kVersion2{"memory.max", "memory.current", {"inactive_file", "active_file"}};

std::int64_t left_of_group(const fs::path& folder, const GroupFiles& files) {
  const auto limit = number_in(folder / files.limit);
  const auto used = number_in(folder / files.used);
  if (!limit || !used) return kNoLimit;
  std::int64_t kept = *used;
  for (const auto* name : files.reclaimable) kept -= number_after(folder / "memory.stat", name).value_or(0);
  return *limit - std::max<std::int64_t>(kept, 0);
}

/// Of a group and all that it is in. A container may show its own group as the topmost one.
std::int64_t left_of_groups(const fs::path& mount, fs::path group, const GroupFiles& files) {
  std::int64_t left = left_of_group(mount, files);
  while (group.has_relative_path()) {
    left = std::min(left, left_of_group(mount / group.relative_path(), files));
    group = group.parent_path();
  }
  return left;
}

/// Lines are `number:controllers:group`; those of version 2 name no controller.
std::int64_t left_of_groups(const fs::path& root) {
  std::ifstream file(root / "proc/self/cgroup");
  std::string line;
  std::int64_t left = kNoLimit;
  while (std::getline(file, line)) {
    const auto first = line.find(':');
    const auto second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    std::string controllers(",");
    controllers.append(line, first + 1, second - first - 1).append(",");
    const std::string group = line.substr(second + 1);
    const fs::path mount = root / "sys/fs/cgroup";
    if (controllers == ",,") left = std::min(left, left_of_groups(mount, group, kVersion2));
    if (controllers.find(",memory,") != std::string::npos)
      left = std::min(left, left_of_groups(mount / "memory", group, kVersion1));
  }
  return left;
}

std::int64_t left_of_addresses(const fs::path& root) {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return kNoLimit;
  const auto kilobytes = number_after(root / "proc/self/status", "VmSize:");
  return static_cast<std::int64_t>(limit.rlim_cur) - kilobytes.value_or(0) * 1024;
}

/// What was freed and has not gone back to the system: keep_freed_memory() keeps all.
std::int64_t kept_by_allocator() {
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 33)
  return static_cast<std::int64_t>(mallinfo2().fordblks);
#else
  return 0;
#endif
}

std::atomic<std::int64_t> chosen_limit{0};

}  // namespace

std::int64_t available_memory(const fs::path& root) {
  const auto left = std::min({left_of_machine(root), left_of_groups(root), left_of_addresses(root)});
  const auto kept = kept_by_allocator();
  return left > kNoLimit - kept ? kNoLimit : std::max<std::int64_t>(left, 0) + kept;
}

void set_memory_limit(std::int64_t bytes) { chosen_limit = std::max<std::int64_t>(bytes, 0); }

std::int64_t memory_limit() {
  const std::int64_t chosen = chosen_limit;
  if (chosen > 0) return std::min(chosen, kHighestLimit);
  return std::clamp(available_memory() / 5 * 4, kLowestLimit, kHighestLimit);
}

}  // namespace tsq::runtime
