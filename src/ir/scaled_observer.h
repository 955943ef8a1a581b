#pragma once

#include <string>
#include <string_view>

namespace tsq::ir {

inline constexpr std::string_view kScaledSuffix = "_scaled";

/// The name of an observer that stands for another one once the channels of its value have been scaled.
inline std::string scaled_name(std::string_view name) {
  return std::string(name) + std::string(kScaledSuffix);
}
/// The name of the observer that was there first.
inline std::string unscaled_name(std::string_view name) {
  while (name.ends_with(kScaledSuffix)) name.remove_suffix(kScaledSuffix.size());
  return std::string(name);
}

}  // namespace tsq::ir
