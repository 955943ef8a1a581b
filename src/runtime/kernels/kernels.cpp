#include "runtime/kernels/kernels.h"

#include <utility>

#include "runtime/kernels/instruction_set.h"

namespace tsq::runtime {

namespace baseline {
extern const KernelTable kKernels;
}
#ifdef TSQ_RUNTIME_X86
namespace avx2 {
extern const KernelTable kKernels;
}
namespace avx512 {
extern const KernelTable kKernels;
}
#endif

namespace {

const KernelTable& best_kernels() {
#ifdef TSQ_RUNTIME_X86
  if (instruction_set() >= InstructionSet::Avx512) return avx512::kKernels;
  if (instruction_set() >= InstructionSet::Avx2) return avx2::kKernels;
#endif
  return baseline::kKernels;
}

}  // namespace

const KernelTable& kernels() {
  static const KernelTable& best = best_kernels();
  return best;
}

bool order_for_tiles(Loops& loops) {
  const auto last = static_cast<std::size_t>(loops.count - 1);
  if (loops.count < 2 || loops.strides[0][last] != 1 || loops.strides[1][last] == 1) return false;
  for (std::size_t d = 0; d < last; ++d) {
    if (loops.strides[1][d] != 1) continue;
    for (std::size_t moved = d; moved + 1 < last; ++moved) {
      std::swap(loops.sizes[moved], loops.sizes[moved + 1]);
      for (auto& strides : loops.strides) std::swap(strides[moved], strides[moved + 1]);
    }
    return true;
  }
  return false;
}

std::int64_t tiles_of(const Loops& loops) {
  const auto tiles = [&](int d) { return (loops.sizes[static_cast<std::size_t>(d)] + kTile - 1) / kTile; };
  std::int64_t count = tiles(loops.count - 1) * tiles(loops.count - 2);
  for (int d = 0; d + 2 < loops.count; ++d) count *= loops.sizes[static_cast<std::size_t>(d)];
  return count;
}

}  // namespace tsq::runtime
