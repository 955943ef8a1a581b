#include "bench/resident.h"

#include <charconv>
#include <fstream>
#include <sstream>
#include <string>

namespace tsq::bench {
namespace {

/// The number in the line "NAME:   123 kB".
uint64_t bytes_in(std::string_view status, std::string_view name) {
  const std::size_t line = status.find(name);
  if (line == std::string_view::npos) return 0;
  const std::size_t digits = status.find_first_of("0123456789", line);
  if (digits == std::string_view::npos) return 0;
  uint64_t kilobytes = 0;
  std::from_chars(status.data() + digits, status.data() + status.size(), kilobytes);
  return kilobytes * 1024;
}

}  // namespace

Resident resident_from(std::string_view status) {
  return {.now = bytes_in(status, "VmRSS:"), .most = bytes_in(status, "VmHWM:")};
}

Resident resident() {
  std::ostringstream status;
  status << std::ifstream("/proc/self/status").rdbuf();
  return resident_from(status.str());
}

void forget_most() { std::ofstream("/proc/self/clear_refs") << "5"; }

}  // namespace tsq::bench
