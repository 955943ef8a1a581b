#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string_view>

namespace tsq {

/// A dtype with the ranges a kernel accepts. Source:
/// torch.ao.quantization.backend_config.DTypeWithConstraints.
struct DTypeWithConstraints {
  std::optional<c10::ScalarType> dtype{};
  std::optional<int64_t> quant_min_lower_bound{};
  std::optional<int64_t> quant_max_upper_bound{};
  std::optional<double> scale_min_lower_bound{};
  std::optional<double> scale_max_upper_bound{};
  std::optional<double> scale_exact_match{};
  std::optional<int64_t> zero_point_exact_match{};

  /// A dtype name where nothing else is set, otherwise an object of the fields that are set.
  static DTypeWithConstraints from_dict(const nlohmann::json& dict);
  [[nodiscard]] nlohmann::json to_dict() const;

  friend bool operator==(const DTypeWithConstraints&, const DTypeWithConstraints&) = default;
};

/// One combination of dtypes that a pattern supports. Source:
/// torch.ao.quantization.backend_config.DTypeConfig. A dtype that is not set means "any" on that port.
struct DTypeConfig {
  DTypeWithConstraints input_dtype{};
  DTypeWithConstraints output_dtype{};
  DTypeWithConstraints weight_dtype{};
  std::optional<c10::ScalarType> bias_dtype{};
  std::optional<bool> is_dynamic{};

  /// PyTorch's keys, only those that are set. The documents' other spellings are read as well:
  /// "bias_type", and "input_dtype" as a plain dtype beside "input_dtype_with_constraints" as the object.
  /// Throws Error(BadConfig) naming the key, also where two spellings contradict each other.
  static DTypeConfig from_dict(const nlohmann::json& dict);
  [[nodiscard]] nlohmann::json to_dict() const;

  friend bool operator==(const DTypeConfig&, const DTypeConfig&) = default;
};

/// "quint8", "qint8", "quint4x2", "qint32", "float" (also read: "float32"), "float16" (also "half"),
/// "bfloat16" …
std::string_view dtype_name(c10::ScalarType dtype);
/// Throws Error(BadConfig) with the nearest known name. A leading "torch." is accepted.
c10::ScalarType dtype_from_name(std::string_view name);

}  // namespace tsq
