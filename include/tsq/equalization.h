#pragma once

#include <tsq/qconfig_mapping.h>

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace tsq {

/// The observers of input-weight equalization of one layer: they find the range of each input channel of its
/// input and of its weight. Their dtype, qscheme and range are read as in PyTorch, where they change nothing
/// either. Source: torch/ao/quantization/fx/_equalize.py, EqualizationQConfig.
struct EqualizationQConfig {
  ObserverSpec input_activation{.observer = "_InputEqualizationObserver",
                                .dtype = c10::ScalarType::QUInt8,
                                .qscheme = c10::QScheme::PER_TENSOR_SYMMETRIC};
  ObserverSpec weight{.observer = "_WeightEqualizationObserver",
                      .dtype = c10::ScalarType::QInt8,
                      .qscheme = c10::QScheme::PER_CHANNEL_SYMMETRIC};

  /// {"input_activation": {…}, "weight": {…}}, or the name "default_equalization_qconfig". Throws
  /// Error(BadConfig) for observers of other classes.
  static EqualizationQConfig from_dict(const nlohmann::json& dict);
  [[nodiscard]] nlohmann::json to_dict() const;

  friend bool operator==(const EqualizationQConfig&, const EqualizationQConfig&) = default;
};

/// An EqualizationQConfig or None ("do not equalize").
using MaybeEqualizationQConfig = std::optional<EqualizationQConfig>;

/// PyTorch's default_equalization_qconfig.
EqualizationQConfig default_equalization_qconfig();

/// Which layers are equalized: the levels and the look-up of QConfigMapping. An empty one, the default of
/// prepare, equalizes nothing. Source: the argument `_equalization_config` of prepare_fx.
class EqualizationMapping {
 public:
  EqualizationMapping& set_global(const MaybeEqualizationQConfig& config);
  EqualizationMapping& set_object_type(Symbol type, const MaybeEqualizationQConfig& config);
  EqualizationMapping& set_object_type(std::string_view type, const MaybeEqualizationQConfig& config) {
    return set_object_type(symbol(type), config);
  }
  EqualizationMapping& set_module_name_regex(std::string regex, const MaybeEqualizationQConfig& config);
  EqualizationMapping& set_module_name(std::string name, const MaybeEqualizationQConfig& config);
  EqualizationMapping& set_module_name_object_type_order(std::string name, Symbol type, int index,
                                                         const MaybeEqualizationQConfig& config);

  /// The same entries as QConfigs, `input_activation` in the place of `activation`, for find_qconfig.
  [[nodiscard]] const QConfigMapping& as_qconfigs() const& noexcept { return entries_; }
  [[nodiscard]] QConfigMapping as_qconfigs() && noexcept { return std::move(entries_); }
  [[nodiscard]] bool empty() const { return entries_ == QConfigMapping(); }

  /// QConfigMapping's keys, an EqualizationQConfig at the end of each entry.
  static EqualizationMapping from_dict(const nlohmann::json& dict);
  [[nodiscard]] nlohmann::json to_dict() const;

  friend bool operator==(const EqualizationMapping&, const EqualizationMapping&) = default;

 private:
  QConfigMapping entries_{};
};

}  // namespace tsq
