#pragma once

#include <tsq/qconfig_mapping.h>
#include <tsq/quantize.h>
#include <tsq/symbol.h>

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tsq {

/// One use of an operator in a module, as set_module_name_object_type_order names it.
struct OperatorUse {
  std::string module_name{};
  Symbol type{};
  int index{0};
};

/// Operators that are quantized or stay float together: the operators of a match, those after it that only
/// move values, and all calls of one module.
struct QuantizedLayer {
  std::string name{};                ///< module path; for a function or method that of the module around it
  std::string op{};                  ///< PyTorch's name, "torch.nn.Conv2d"
  std::vector<std::string> nodes{};  ///< Decision::node of its operators
  std::vector<std::string> module_names{};  ///< the entries of a mapping that name it
  std::vector<OperatorUse> uses{};          ///< likewise, where no module path does
  std::optional<int64_t> macs{};            ///< multiply-accumulates of one run; none: not measured
  std::optional<double> seconds{};          ///< time in float in one run; none: not measured

  /// "'features.0' (torch.nn.Conv2d)", "'block' (torch.add 1)", "the model itself (torch.add 0)".
  [[nodiscard]] std::string to_text() const;
  [[nodiscard]] nlohmann::json to_json() const;
};

/// The layers that a prepared model quantizes, in graph order. Throws Error(Unsupported) for a model with
/// standalone modules.
std::vector<QuantizedLayer> quantized_layers(const Prepared& prepared);

/// `mapping` with None for `layers`: set_module_name, and set_module_name_object_type_order for functions and
/// methods.
QConfigMapping keep_float(QConfigMapping mapping, std::span<const QuantizedLayer> layers);

}  // namespace tsq
