#pragma once

#include <tsq/backend_config.h>
#include <tsq/custom_module.h>
#include <tsq/qconfig_mapping.h>

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tsq {

struct StandaloneModuleConfig;

/// Options of prepare that concern single modules, inputs and outputs. Source:
/// torch.ao.quantization.fx.custom_config.PrepareCustomConfig. Setters have PyTorch's names and return *this.
class PrepareCustomConfig {
 public:
  /// Modules that are prepared and converted by themselves, as one unit of the surrounding model (E-01), by
  /// path or by class. An entry for a path wins over one for a class. PyTorch's example_inputs are not
  /// needed.
  PrepareCustomConfig& set_standalone_module_name(std::string name, StandaloneModuleConfig config);
  PrepareCustomConfig& set_standalone_module_class(Symbol type, StandaloneModuleConfig config);
  /// Modules of a class become modules of an observed class, whole, with an observer in front and after them
  /// (E-08); ConvertCustomConfig says what these become. Throws Error(BadConfig) for other types than static,
  /// as PyTorch's does.
  PrepareCustomConfig& set_float_to_observed_mapping(Symbol float_class, CustomModule observed,
                                                     QuantType quant_type = QuantType::Static);
  /// Modules kept whole: no observer inside, float in and out (E-07). By path, or by class.
  PrepareCustomConfig& set_non_traceable_module_names(std::vector<std::string> names);
  PrepareCustomConfig& set_non_traceable_module_classes(std::vector<Symbol> classes);
  /// Graph inputs that arrive quantized (quint8) and graph outputs that leave quantized (E-11, E-12).
  PrepareCustomConfig& set_input_quantized_indexes(std::vector<int> indexes);
  PrepareCustomConfig& set_output_quantized_indexes(std::vector<int> indexes);
  /// Attributes copied from the user's module to every result made of it (E-13); absent ones are skipped.
  PrepareCustomConfig& set_preserved_attributes(std::vector<std::string> names);

  /// The entry of a module by its path, otherwise by its class; null where there is none.
  [[nodiscard]] const StandaloneModuleConfig* standalone_module(const std::string& path, Symbol type) const;
  /// The observed class of a class; null where there is none.
  [[nodiscard]] const CustomModule* observed_module(Symbol float_class) const;
  [[nodiscard]] const std::vector<std::string>& non_traceable_module_names() const& noexcept {
    return non_traceable_names_;
  }
  [[nodiscard]] std::vector<std::string> non_traceable_module_names() && noexcept {
    return std::move(non_traceable_names_);
  }
  [[nodiscard]] const std::vector<Symbol>& non_traceable_module_classes() const& noexcept {
    return non_traceable_classes_;
  }
  [[nodiscard]] std::vector<Symbol> non_traceable_module_classes() && noexcept {
    return std::move(non_traceable_classes_);
  }
  [[nodiscard]] const std::vector<int>& input_quantized_indexes() const& noexcept { return input_quantized_; }
  [[nodiscard]] std::vector<int> input_quantized_indexes() && noexcept { return std::move(input_quantized_); }
  [[nodiscard]] const std::vector<int>& output_quantized_indexes() const& noexcept {
    return output_quantized_;
  }
  [[nodiscard]] std::vector<int> output_quantized_indexes() && noexcept {
    return std::move(output_quantized_);
  }
  [[nodiscard]] const std::vector<std::string>& preserved_attributes() const& noexcept { return preserved_; }
  [[nodiscard]] std::vector<std::string> preserved_attributes() && noexcept { return std::move(preserved_); }

  /// PyTorch's keys (E-14); an unknown key is an error.
  static PrepareCustomConfig from_dict(const nlohmann::json& dict);
  [[nodiscard]] nlohmann::json to_dict() const;

 private:
  std::vector<std::pair<std::string, std::shared_ptr<const StandaloneModuleConfig>>> standalone_names_{};
  std::vector<std::pair<Symbol, std::shared_ptr<const StandaloneModuleConfig>>> standalone_classes_{};
  std::vector<std::pair<Symbol, CustomModule>> float_to_observed_{};  ///< static
  std::vector<std::string> non_traceable_names_{};
  std::vector<Symbol> non_traceable_classes_{};
  std::vector<int> input_quantized_{};
  std::vector<int> output_quantized_{};
  std::vector<std::string> preserved_{};
};

/// How a standalone module is prepared. Fields that are not set come from the surrounding model: its QConfig
/// for that module as the global one, no custom config, its backend.
struct StandaloneModuleConfig {
  std::optional<QConfigMapping> qconfig_mapping{};
  /// Its quantized indexes are the module's: inputs that it takes quantized, and [0] for an output that
  /// leaves quantized.
  PrepareCustomConfig prepare_custom_config{};
  std::optional<BackendConfig> backend_config{};
};

/// Options of convert. Source: torch.ao.quantization.fx.custom_config.ConvertCustomConfig.
class ConvertCustomConfig {
 public:
  /// Attributes copied from the user's module to the result, besides those that were named at prepare (E-13).
  ConvertCustomConfig& set_preserved_attributes(std::vector<std::string> names);
  [[nodiscard]] const std::vector<std::string>& preserved_attributes() const& noexcept { return preserved_; }
  [[nodiscard]] std::vector<std::string> preserved_attributes() && noexcept { return std::move(preserved_); }
  /// What modules of an observed class become (E-15).
  ConvertCustomConfig& set_observed_to_quantized_mapping(Symbol observed_class, CustomModule quantized,
                                                         QuantType quant_type = QuantType::Static);
  /// The quantized class of an observed one; null where there is none.
  [[nodiscard]] const CustomModule* quantized_module(Symbol observed_class, QuantType quant_type) const;
  /// Whether there is one for any type.
  [[nodiscard]] bool is_observed_class(Symbol observed_class) const;
  /// Whether a model whose observers have seen no data is converted anyway, with scale 1 and zero point 0;
  /// otherwise that is an error. tsq's own, not part of the dict.
  ConvertCustomConfig& set_allow_uncalibrated(bool allow) {
    allow_uncalibrated_ = allow;
    return *this;
  }
  [[nodiscard]] bool allow_uncalibrated() const noexcept { return allow_uncalibrated_; }
  /// PyTorch's keys (E-15).
  static ConvertCustomConfig from_dict(const nlohmann::json& dict);
  [[nodiscard]] nlohmann::json to_dict() const;

 private:
  std::vector<std::string> preserved_{};
  std::array<std::vector<std::pair<Symbol, CustomModule>>, 3> observed_to_quantized_{};  ///< by QuantType
  bool allow_uncalibrated_{false};
};

/// Options of fuse (E-16). Source: torch.ao.quantization.fx.custom_config.FuseCustomConfig.
class FuseCustomConfig {
 public:
  /// Attributes copied from the user's module to the result.
  FuseCustomConfig& set_preserved_attributes(std::vector<std::string> names);
  [[nodiscard]] const std::vector<std::string>& preserved_attributes() const& noexcept { return preserved_; }
  [[nodiscard]] std::vector<std::string> preserved_attributes() && noexcept { return std::move(preserved_); }
  /// PyTorch's key `preserved_attributes`.
  static FuseCustomConfig from_dict(const nlohmann::json& dict);
  [[nodiscard]] nlohmann::json to_dict() const;

 private:
  std::vector<std::string> preserved_{};
};

}  // namespace tsq
