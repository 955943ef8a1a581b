#pragma once

#include <tsq/recipe_options.h>

#include <memory>
#include <string>

#include "backends/kernels/processor_faults.h"
#include "base/known_engines.h"

namespace tsq::kernels {

/// What kernels are chosen for.
struct Target {
  std::string engine{"x86"};  ///< "x86", "fbgemm", "onednn", "qnnpack" or "none"
  TargetCpu cpu{TargetCpu::Native};
  LoweringTarget runtime{LoweringTarget::Stock};
  ProcessorFaults faults{};                         ///< kernels that are wrong on `cpu`
  std::shared_ptr<const MachineProfile> machine{};  ///< none: that of processors like `cpu`
};

/// Whether the processor multiplies and adds bytes in 32 bits (AVX-512 VNNI).
bool has_vnni(TargetCpu cpu);
inline bool has_vnni(const Target& target) { return has_vnni(target.cpu); }

/// K-05: whether inputs whose range is found when the model runs take 7 bits. The engine decides that, not
/// the observer.
inline bool reduces_dynamic_range(const Target& target) { return runs_fbgemm(target.engine); }

}  // namespace tsq::kernels
