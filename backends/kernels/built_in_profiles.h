#pragma once

#include <span>
#include <string_view>

namespace tsq::kernels {

/// A file of backends/profiles.
struct BuiltInProfile {
  std::string_view name;
  std::string_view json;
};
[[nodiscard]] std::span<const BuiltInProfile> built_in_profiles();

}  // namespace tsq::kernels
