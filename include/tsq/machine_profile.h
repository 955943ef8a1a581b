#pragma once

#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace tsq {

/// A call whose time was measured at sizes of a model.
struct MeasuredKernel {
  std::string kernel{};  ///< "x86 quantized::conv2d"
  int threads{1};
  std::map<std::string, double> work{};  ///< its sizes: "values_in", "rows" …
  double nanoseconds{0};

  bool operator==(const MeasuredKernel&) const = default;
};

/// What kernels take on a machine: numbers of a small model for each kind of kernel, one for each feature of
/// its work ("call", "products", "values_out" …), in nanoseconds. With a profile nothing is timed: same
/// input, same bytes.
struct MachineProfile {
  std::string name{};                                   ///< "avx512-vnni", or what its writer called it
  std::string processor{};                              ///< that was measured
  bool is_estimated{false};                             ///< derived from another processor's
  using Coefficients = std::map<std::string, double>;   ///< by feature
  using Kernels = std::map<std::string, Coefficients>;  ///< by kind of kernel
  std::map<int, Kernels> by_threads{};
  std::vector<MeasuredKernel> measured{};  ///< these count before what is predicted

  bool operator==(const MachineProfile&) const = default;

  [[nodiscard]] nlohmann::json to_dict() const;
  /// Throws Error(BadConfig) for JSON that is no profile, or one of a later format.
  [[nodiscard]] static MachineProfile from_dict(const nlohmann::json& json);
};

/// Profiles that are part of the library: "avx2", "avx512-vnni" and "amx". Throws Error(BadConfig) for other
/// names.
[[nodiscard]] std::shared_ptr<const MachineProfile> machine_profile(std::string_view name);
[[nodiscard]] std::vector<std::string> machine_profile_names();

/// Reads a file that `tsq tune` wrote. Throws Error(BadConfig) with its path.
[[nodiscard]] std::shared_ptr<const MachineProfile> load_machine_profile(const std::string& path);

}  // namespace tsq
