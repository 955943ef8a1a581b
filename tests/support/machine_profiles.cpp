#include "support/machine_profiles.h"

#include <string_view>

namespace tsq::testing {
namespace {

/// Not those that round values, or make views of both.
bool is_float_kernel(std::string_view name) {
  const bool is_of_both = name.starts_with("aten::quantize") || name == "aten::slice";
  return (name.starts_with("aten::") && !is_of_both) || name.starts_with("fused float ");
}

}  // namespace

std::shared_ptr<const MachineProfile> slow_in_float() {
  MachineProfile profile = *machine_profile("avx512-vnni");
  for (auto& [threads, kernels] : profile.by_threads) {
    for (auto& [name, coefficients] : kernels) {
      if (!is_float_kernel(name)) continue;
      for (auto& [feature, nanoseconds] : coefficients) nanoseconds *= 1000;
    }
  }
  profile.measured.clear();
  return std::make_shared<const MachineProfile>(std::move(profile));
}

}  // namespace tsq::testing
