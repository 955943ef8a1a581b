#include "support/processor.h"

#include "backends/kernels/target.h"

namespace tsq::testing {

bool has_vnni() { return kernels::has_vnni(TargetCpu::Native); }

namespace {
std::string whose_ranges_fit(const std::string& engine) {
  return engine == "onednn" && !has_vnni() ? "x86" : engine;
}
}  // namespace

QConfig default_qconfig_here(const std::string& engine) { return default_qconfig(whose_ranges_fit(engine)); }

QConfigMapping default_mapping_here(const std::string& engine) {
  return default_qconfig_mapping(whose_ranges_fit(engine));
}

}  // namespace tsq::testing
