#include "fuzz/input.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>

namespace tsq::fuzz {

MemoryFile::MemoryFile(std::string_view bytes)
    : descriptor_(::memfd_create("fuzz", 0)), path_("/proc/self/fd/" + std::to_string(descriptor_)) {
  if (descriptor_ < 0) std::abort();
  while (!bytes.empty()) {
    const auto written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written <= 0) std::abort();
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
}

MemoryFile::~MemoryFile() { ::close(descriptor_); }

}  // namespace tsq::fuzz
