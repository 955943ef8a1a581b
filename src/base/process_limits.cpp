#include "base/process_limits.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <system_error>

namespace tsq {
namespace {

/// What the process has that counts against RLIMIT_DATA.
std::int64_t data_in_use() {
  std::ifstream file("/proc/self/statm");
  std::int64_t pages = 0;
  for (int field = 0; field < 6; ++field) file >> pages;
  return pages * ::sysconf(_SC_PAGESIZE);
}

std::int64_t seconds_used() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_utime.tv_sec + usage.ru_stime.tv_sec;
}

/// Lowers the soft limit, which can be raised again: the one before.
rlimit lower(__rlimit_resource resource, std::int64_t limit) {
  rlimit before{};
  ::getrlimit(resource, &before);
  rlimit lowered = before;
  lowered.rlim_cur = std::min<rlim_t>(before.rlim_cur, static_cast<rlim_t>(limit));
  ::setrlimit(resource, &lowered);
  return before;
}

}  // namespace

LoadLimits load_limits(const std::string& path) {
  constexpr std::int64_t kGiga = 1'000'000'000;
  constexpr std::int64_t kPerSecond = 20'000'000;
  constexpr int kSeconds = 8;
  std::error_code error;
  const std::uintmax_t size = std::filesystem::file_size(path, error);
  const auto bytes = error ? 0 : static_cast<std::int64_t>(size);
  return {.bytes = 2 * kGiga + 8 * bytes, .seconds = kSeconds + static_cast<int>(bytes / kPerSecond)};
}

ProcessLimits::ProcessLimits(const LoadLimits& limits)
    : memory_(lower(RLIMIT_DATA, data_in_use() + limits.bytes)),
      time_(lower(RLIMIT_CPU, seconds_used() + limits.seconds)) {}

ProcessLimits::~ProcessLimits() {
  ::setrlimit(RLIMIT_DATA, &memory_);
  ::setrlimit(RLIMIT_CPU, &time_);
}

}  // namespace tsq
