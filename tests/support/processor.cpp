#include "support/processor.h"

#include "backends/kernels/target.h"

namespace tsq::testing {

bool has_vnni() { return kernels::has_vnni(TargetCpu::Native); }

QConfigMapping default_mapping_here(const std::string& engine) {
  return default_qconfig_mapping(engine == "onednn" && !has_vnni() ? "x86" : engine);
}

}  // namespace tsq::testing
