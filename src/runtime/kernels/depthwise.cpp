#include "runtime/kernels/depthwise.h"

#include "runtime/kernels/instruction_set.h"

namespace tsq::runtime {

#ifdef TSQ_RUNTIME_X86
namespace vnni {
void depthwise(const DepthwiseTask& task, const DepthwiseWeights& weights, void* out, const void* in,
               std::int64_t begin, std::int64_t end);
}

DepthwiseKernel depthwise_kernel() {
  return instruction_set() >= InstructionSet::Avx512Vnni ? vnni::depthwise : nullptr;
}
#else
DepthwiseKernel depthwise_kernel() { return nullptr; }
#endif

}  // namespace tsq::runtime
