#include "base/freed_memory.h"

#include <cstdlib>

#if defined(__GLIBC__)
#include <malloc.h>
#endif

namespace tsq {

void keep_freed_memory() {
#if defined(__GLIBC__)
  // The largest threshold that glibc takes; larger blocks are the system's in either case.
  constexpr int kLargestThreshold = 32 << 20;
  mallopt(M_MMAP_THRESHOLD, kLargestThreshold);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
#endif
}

}  // namespace tsq
