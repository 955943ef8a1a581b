#include "runtime/kernels/depthwise.h"

namespace tsq::runtime {

#ifdef TSQ_RUNTIME_X86
namespace vnni {
void depthwise(const DepthwiseTask& task, const DepthwiseWeights& weights, void* out, const void* in,
               std::int64_t begin, std::int64_t end);
}

DepthwiseKernel depthwise_kernel() {
  static const bool runs = __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
                           __builtin_cpu_supports("avx512vnni");
  return runs ? vnni::depthwise : nullptr;
}
#else
DepthwiseKernel depthwise_kernel() { return nullptr; }
#endif

}  // namespace tsq::runtime
