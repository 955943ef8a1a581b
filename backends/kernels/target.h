#pragma once

#include <tsq/recipe.h>

#include <string>

namespace tsq::kernels {

/// What kernels are chosen for.
struct Target {
  std::string engine{"x86"};  ///< "x86", "fbgemm", "onednn" or "qnnpack"
  TargetCpu cpu{TargetCpu::Native};
};

/// Whether the processor multiplies and adds bytes in 32 bits (AVX-512 VNNI).
bool has_vnni(TargetCpu cpu);
inline bool has_vnni(const Target& target) { return has_vnni(target.cpu); }

}  // namespace tsq::kernels
