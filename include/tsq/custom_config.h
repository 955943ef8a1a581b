#pragma once

#include <tsq/backend_config.h>
#include <tsq/qconfig_mapping.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tsq {

/// Options of prepare that concern single modules. Source:
/// torch.ao.quantization.fx.custom_config.PrepareCustomConfig. Setters have PyTorch's names and return *this.
class PrepareCustomConfig {
 public:
  /// Modules kept whole: no observer inside, float in and out (E-07). By path, or by class.
  PrepareCustomConfig& set_non_traceable_module_names(std::vector<std::string> names);
  PrepareCustomConfig& set_non_traceable_module_classes(std::vector<Symbol> classes);
  /// Graph inputs that arrive quantized (quint8) and graph outputs that leave quantized (E-11, E-12).
  PrepareCustomConfig& set_input_quantized_indexes(std::vector<int> indexes);
  PrepareCustomConfig& set_output_quantized_indexes(std::vector<int> indexes);
  /// Attributes copied from the user's module to the result (E-13).
  PrepareCustomConfig& set_preserved_attributes(std::vector<std::string> names);

  [[nodiscard]] const std::vector<std::string>& non_traceable_module_names() const noexcept {
    return non_traceable_names_;
  }
  [[nodiscard]] const std::vector<Symbol>& non_traceable_module_classes() const noexcept {
    return non_traceable_classes_;
  }
  [[nodiscard]] const std::vector<int>& input_quantized_indexes() const noexcept { return input_quantized_; }
  [[nodiscard]] const std::vector<int>& output_quantized_indexes() const noexcept {
    return output_quantized_;
  }
  [[nodiscard]] const std::vector<std::string>& preserved_attributes() const noexcept { return preserved_; }

  /// PyTorch's keys (E-14); an unknown key is an error.
  static PrepareCustomConfig from_dict(const nlohmann::json& dict);
  [[nodiscard]] nlohmann::json to_dict() const;

 private:
  std::vector<std::string> non_traceable_names_{};
  std::vector<Symbol> non_traceable_classes_{};
  std::vector<int> input_quantized_{};
  std::vector<int> output_quantized_{};
  std::vector<std::string> preserved_{};
};

}  // namespace tsq
