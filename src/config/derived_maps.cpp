#include <fmt/format.h>
#include <tsq/derived_maps.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "base/entries.h"
#include "config/fusers.h"

namespace tsq {
namespace {

using nlohmann::json;

/// Fields in the order in which PyTorch's dicts hold them.
constexpr std::array<std::string_view, 5> kDTypeFields{"input_dtype", "output_dtype", "weight_dtype",
                                                       "bias_dtype", "is_dynamic"};
constexpr std::array<std::string_view, 10> kOtherFields{
    "observation_type",    "root_module",           "qat_module",       "reference_quantized_module_for_root",
    "fused_module",        "fuser_method",          "root_node_getter", "extra_inputs_getter",
    "input_type_to_index", "pattern_complex_format"};

template <typename Value, typename Get>
PatternMap<Value> map_of(const BackendConfig& backend, const Get& get) {
  PatternMap<Value> map;
  for (const BackendPatternConfig& row : backend.configs()) {
    if (auto value = get(row)) map.emplace_back(row.key(), *std::move(value));
  }
  return map;
}

std::vector<Symbol> classes_of(const BackendConfig& backend,
                               std::optional<Symbol> BackendPatternConfig::*member) {
  std::vector<Symbol> classes;
  for (const BackendPatternConfig& row : backend.configs()) {
    if (row.*member && std::ranges::find(classes, *(row.*member)) == classes.end())
      classes.push_back(*(row.*member));
  }
  return classes;
}

/// Python's repr of a value, names without quotes.
std::string python_text(const json& value) {
  if (value.is_null()) return "None";
  if (value.is_boolean()) return value.get<bool>() ? "True" : "False";
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_float()) return fmt::format("{}", value.get<double>());
  if (!value.is_structured()) return value.dump();
  std::string text;
  for (const auto& [key, item] : value.items()) {
    if (!text.empty()) text += ", ";
    text += value.is_object() ? fmt::format("'{}': {}", key, python_text(item)) : python_text(item);
  }
  return value.is_object() ? "{" + text + "}" : "(" + text + ")";
}

std::string dtype_config_text(const json& config) {
  std::string text = "    {\n";
  for (const std::string_view field : kDTypeFields) {
    if (const auto found = config.find(std::string(field)); found != config.end())
      text += fmt::format("      '{}': {},\n", field, python_text(*found));
  }
  return text + "    },\n";
}

}  // namespace

PatternMap<std::vector<DTypeConfig>> get_pattern_to_dtype_configs(const BackendConfig& backend_config) {
  return map_of<std::vector<DTypeConfig>>(
      backend_config, [](const BackendPatternConfig& row) { return std::optional(row.dtype_configs); });
}

std::vector<Symbol> get_qat_module_classes(const BackendConfig& backend_config) {
  return classes_of(backend_config, &BackendPatternConfig::qat_module);
}

std::vector<Symbol> get_fused_module_classes(const BackendConfig& backend_config) {
  return classes_of(backend_config, &BackendPatternConfig::fused_module);
}

PatternMap<std::map<std::string, int>> get_pattern_to_input_type_to_index(
    const BackendConfig& backend_config) {
  return map_of<std::map<std::string, int>>(
      backend_config, [](const BackendPatternConfig& row) { return std::optional(row.input_type_to_index); });
}

std::vector<std::pair<Symbol, Symbol>> get_root_module_to_quantized_reference_module(
    const BackendConfig& backend_config) {
  std::vector<std::pair<Symbol, Symbol>> map;
  for (const BackendPatternConfig& row : backend_config.configs()) {
    if (!row.root_module || !row.reference_quantized_module) continue;
    set_entry(map, *row.root_module, *row.reference_quantized_module);
  }
  return map;
}

PatternMap<FuserMethod> get_fuser_method_mapping(const BackendConfig& backend_config) {
  return map_of<FuserMethod>(backend_config, [](const BackendPatternConfig& row) {
    return row.fuser_method ? std::optional(FuserMethod{*row.fuser_method, fuser_name(row)}) : std::nullopt;
  });
}

PatternMap<Symbol> get_module_to_qat_module(const BackendConfig& backend_config) {
  return map_of<Symbol>(backend_config, [](const BackendPatternConfig& row) { return row.qat_module; });
}

PatternMap<std::string> get_fusion_pattern_to_root_node_getter(const BackendConfig& backend_config) {
  return map_of<std::string>(backend_config, [](const BackendPatternConfig& row) {
    return row.root_node_getter == RootNodeGetter::Default ? std::nullopt
                                                           : std::optional(root_node_getter_name(row));
  });
}

PatternMap<std::string> get_fusion_pattern_to_extra_inputs_getter(const BackendConfig& backend_config) {
  return map_of<std::string>(backend_config, [](const BackendPatternConfig& row) {
    return row.extra_inputs_getter == ExtraInputsGetter::None ? std::nullopt
                                                              : std::optional(extra_inputs_getter_name(row));
  });
}

std::string remove_boolean_dispatch_from_name(const Symbol& symbol) { return std::string(symbol.name); }

std::string pattern_to_human_readable(const json& pattern) { return python_text(pattern); }

std::string entry_to_pretty_str(const json& entry) {
  std::string text = "{\n";
  if (entry.contains("pattern"))
    text += fmt::format("  'pattern': {},\n", pattern_to_human_readable(entry.at("pattern")));
  if (entry.contains("dtype_configs")) {
    text += "  'dtype_configs': [\n";
    for (const json& config : entry.at("dtype_configs")) text += dtype_config_text(config);
    text += "  ],\n";
  }
  if (entry.contains("num_tensor_args_to_observation_type")) {
    text += "  'num_tensor_args_to_observation_type': {\n";
    for (const auto& [count, type] : entry.at("num_tensor_args_to_observation_type").items())
      text += fmt::format("    {}: {},\n", count, python_text(type));
    text += "  },\n";
  }
  for (const std::string_view field : kOtherFields) {
    if (const auto found = entry.find(std::string(field)); found != entry.end())
      text += fmt::format("  '{}': {},\n", field, python_text(*found));
  }
  return text + "}";
}

}  // namespace tsq
