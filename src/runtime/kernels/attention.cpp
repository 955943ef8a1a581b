#include "runtime/kernels/attention.h"

#include "runtime/kernels/instruction_set.h"

namespace tsq::runtime {

namespace baseline {
void attention(const AttentionTask&, const AttentionPointers&, std::int64_t begin, std::int64_t end);
}
#ifdef TSQ_RUNTIME_X86
namespace avx2 {
void attention(const AttentionTask&, const AttentionPointers&, std::int64_t begin, std::int64_t end);
}
namespace avx512 {
void attention(const AttentionTask&, const AttentionPointers&, std::int64_t begin, std::int64_t end);
}
namespace vnni {
void attention(const AttentionTask&, const AttentionPointers&, std::int64_t begin, std::int64_t end);
}
#endif

namespace {

AttentionKernel best_attention() {
#ifdef TSQ_RUNTIME_X86
  if (instruction_set() >= InstructionSet::Avx512Vnni) return vnni::attention;
  if (instruction_set() >= InstructionSet::Avx512) return avx512::attention;
  if (instruction_set() >= InstructionSet::Avx2) return avx2::attention;
#endif
  return baseline::attention;
}

/// The widest panels that any instruction set packs.
constexpr std::int64_t kWidestPanel = 32;

std::int64_t panels_of(std::int64_t columns) { return (columns + kWidestPanel - 1) / kWidestPanel; }

}  // namespace

std::int64_t attention_scratch(const AttentionTask& task) {
  const auto keys = panels_of(task.keys);
  const auto values = panels_of(task.value_width);
  const auto packed = (keys * (task.width + 1) + values * (task.keys + 1)) * kWidestPanel;
  const auto rows = (keys + values + panels_of(task.width)) * kWidestPanel * kAttentionRows;
  return packed + rows;
}

AttentionKernel attention_kernel() {
  static const AttentionKernel best = best_attention();
  return best;
}

}  // namespace tsq::runtime
