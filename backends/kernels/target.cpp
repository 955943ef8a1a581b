#include "backends/kernels/target.h"

namespace tsq::kernels {

bool has_vnni(TargetCpu cpu) {
  if (cpu != TargetCpu::Native) return cpu == TargetCpu::Vnni || cpu == TargetCpu::Amx;
#if defined(__x86_64__) || defined(__i386__)
  return __builtin_cpu_supports("avx512vnni") != 0;
#else
  return false;
#endif
}

}  // namespace tsq::kernels
