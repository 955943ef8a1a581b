#include "runtime/kernels/instruction_set.h"

#include <dnnl.h>

namespace tsq::runtime {
namespace {

#ifdef TSQ_RUNTIME_X86
bool has(dnnl_cpu_isa_t allowed, dnnl_cpu_isa_t wanted) { return (allowed & wanted) == wanted; }

InstructionSet best_instruction_set() {
  const auto allowed = dnnl_get_effective_cpu_isa();
  const bool has_avx512 = __builtin_cpu_supports("fma") && __builtin_cpu_supports("avx512f") &&
                          __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
                          __builtin_cpu_supports("avx512vl") && has(allowed, dnnl_cpu_isa_avx512_core);
  const bool has_vnni = __builtin_cpu_supports("avx512vnni") && has(allowed, dnnl_cpu_isa_avx512_core_vnni);
  if (has_avx512) return has_vnni ? InstructionSet::Avx512Vnni : InstructionSet::Avx512;
  const bool has_avx2 =
      __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has(allowed, dnnl_cpu_isa_avx2);
  return has_avx2 ? InstructionSet::Avx2 : InstructionSet::Baseline;
}
#else
InstructionSet best_instruction_set() { return InstructionSet::Baseline; }
#endif

}  // namespace

InstructionSet instruction_set() {
  static const InstructionSet best = best_instruction_set();
  return best;
}

}  // namespace tsq::runtime
