#include "runtime/kernels/recurrent.h"

#include <algorithm>

#include "runtime/kernels/instruction_set.h"

namespace tsq::runtime {

namespace baseline {
extern const RecurrentKernels kRecurrentKernels;
}
#ifdef TSQ_RUNTIME_X86
namespace avx2 {
extern const RecurrentKernels kRecurrentKernels;
}
namespace avx512 {
extern const RecurrentKernels kRecurrentKernels;
}
namespace vnni {
extern const RecurrentKernels kRecurrentKernels;
}
#endif

namespace {

const RecurrentKernels& best_recurrent_kernels() {
#ifdef TSQ_RUNTIME_X86
  if (instruction_set() >= InstructionSet::Avx512Vnni) return vnni::kRecurrentKernels;
  if (instruction_set() >= InstructionSet::Avx512) return avx512::kRecurrentKernels;
  if (instruction_set() >= InstructionSet::Avx2) return avx2::kRecurrentKernels;
#endif
  return baseline::kRecurrentKernels;
}

/// The widest registers and panels of any instruction set.
constexpr std::int64_t kWidestRegister = 16;
constexpr std::int64_t kWidestPanel = 32;

std::int64_t filled(std::int64_t number, std::int64_t step) { return (number + step - 1) / step * step; }

}  // namespace

std::int64_t recurrent_columns(std::int64_t gates, std::int64_t width) {
  return gates * filled(width, kWidestPanel);
}

std::int64_t recurrent_scratch(const RecurrentTask& task) {
  // Words have two rows of bytes each; a panel of each gate is summed at once.
  constexpr std::int64_t kProductRows = 2 * kRecurrentRows;
  const auto products = [&](std::int64_t numbers) {
    const std::int64_t depth = filled(numbers, kWidestRegister);
    return kProductRows * (task.gates() * kWidestPanel + depth) + depth;
  };
  const std::int64_t states = 3 * recurrent_columns(1, task.width) * kRecurrentRows;
  const std::int64_t gates = task.steps_at_once * task.rows * recurrent_columns(task.gates(), task.width);
  return products(task.depth) + products(task.width) + states + gates;
}

const RecurrentKernels& recurrent_kernels() {
  static const RecurrentKernels& best = best_recurrent_kernels();
  return best;
}

}  // namespace tsq::runtime
