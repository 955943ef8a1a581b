#pragma once

#include <tsq/backend_config.h>

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

/// What PyTorch derives from a table: the functions of torch/ao/quantization/backend_config/utils.py, by
/// their names. A map has its entries in the table's order. Patterns are in tsq's one form, which FX's tuples
/// and reversed nested tuples both are.
namespace tsq {

template <typename Value>
using PatternMap = std::vector<std::pair<Pattern, Value>>;

PatternMap<std::vector<DTypeConfig>> get_pattern_to_dtype_configs(const BackendConfig& backend_config);
/// Each class once, in the table's order (PyTorch's tuples have none).
std::vector<Symbol> get_qat_module_classes(const BackendConfig& backend_config);
std::vector<Symbol> get_fused_module_classes(const BackendConfig& backend_config);
/// All patterns, those that say nothing about their inputs with an empty map.
PatternMap<std::map<std::string, int>> get_pattern_to_input_type_to_index(
    const BackendConfig& backend_config);
/// Of rows that have both; of several for one root the last counts.
std::vector<std::pair<Symbol, Symbol>> get_root_module_to_quantized_reference_module(
    const BackendConfig& backend_config);

/// A fuser by its kind and its name, PyTorch's or a registered one.
struct FuserMethod {
  Fuser fuser{};
  std::string name{};
  friend bool operator==(const FuserMethod&, const FuserMethod&) = default;
};
PatternMap<FuserMethod> get_fuser_method_mapping(const BackendConfig& backend_config);
PatternMap<Symbol> get_module_to_qat_module(const BackendConfig& backend_config);

/// Of rows that have a getter of their own; by the names that to_dict writes.
PatternMap<std::string> get_fusion_pattern_to_root_node_getter(const BackendConfig& backend_config);
PatternMap<std::string> get_fusion_pattern_to_extra_inputs_getter(const BackendConfig& backend_config);

/// The name itself: functions under torch.nn.functional's boolean dispatch are symbols like others here.
std::string remove_boolean_dispatch_from_name(const Symbol& symbol);
/// A pattern as to_dict writes it, in Python's spelling of tuples: "(torch.nn.Conv2d, torch.nn.ReLU)".
std::string pattern_to_human_readable(const nlohmann::json& pattern);
/// A row's dict (BackendPatternConfig::to_dict) for people, in PyTorch's layout.
std::string entry_to_pretty_str(const nlohmann::json& entry);

}  // namespace tsq
