#include <fmt/format.h>
#include <tsq/custom_config.h>

#include <algorithm>
#include <array>

#include "config/json.h"
#include "config/json_config.h"

namespace tsq {
namespace {

constexpr std::array<std::string_view, 8> kPrepareKeys{
    "standalone_module_name",    "standalone_module_class",    "float_to_observed_custom_module_class",
    "non_traceable_module_name", "non_traceable_module_class", "input_quantized_idxs",
    "output_quantized_idxs",     "preserved_attributes"};

/// PyTorch's keys that speak of Python classes, which a TorchScript file does not have.
constexpr std::array<std::string_view, 3> kUnsupportedKeys{
    "standalone_module_name", "standalone_module_class", "float_to_observed_custom_module_class"};

std::vector<std::string> read_strings(const JsonValue& at, std::string_view key, std::string_view of_what) {
  std::vector<std::string> strings;
  if (!at.has(key)) return strings;
  for (const JsonValue& item : at.at(key).elements(of_what)) strings.push_back(item.string());
  return strings;
}

std::vector<int> read_indexes(const JsonValue& at, std::string_view key) {
  std::vector<int> indexes;
  if (!at.has(key)) return indexes;
  for (const JsonValue& item : at.at(key).elements("indexes")) {
    const std::int64_t index = item.integer();
    if (index < 0 || index > INT32_MAX)
      item.fail(fmt::format("got the index {}, wanted one from 0 on", index));
    if (std::ranges::find(indexes, index) != indexes.end())
      item.fail(fmt::format("the index {} stands twice", index));
    indexes.push_back(static_cast<int>(index));
  }
  return indexes;
}

}  // namespace

PrepareCustomConfig& PrepareCustomConfig::set_non_traceable_module_names(std::vector<std::string> names) {
  non_traceable_names_ = std::move(names);
  return *this;
}

PrepareCustomConfig& PrepareCustomConfig::set_non_traceable_module_classes(std::vector<Symbol> classes) {
  non_traceable_classes_ = std::move(classes);
  return *this;
}

PrepareCustomConfig& PrepareCustomConfig::set_input_quantized_indexes(std::vector<int> indexes) {
  input_quantized_ = std::move(indexes);
  return *this;
}

PrepareCustomConfig& PrepareCustomConfig::set_output_quantized_indexes(std::vector<int> indexes) {
  output_quantized_ = std::move(indexes);
  return *this;
}

PrepareCustomConfig& PrepareCustomConfig::set_preserved_attributes(std::vector<std::string> names) {
  preserved_ = std::move(names);
  return *this;
}

PrepareCustomConfig PrepareCustomConfig::from_dict(const nlohmann::json& dict) {
  const JsonValue at(dict);
  at.expect_object("PrepareCustomConfig", kPrepareKeys);
  for (const std::string_view key : kUnsupportedKeys) {
    if (at.has(key) && !at.at(key).json().empty())
      at.at(key).fail("is not supported", "use 'non_traceable_module_name' to keep a module whole");
  }
  PrepareCustomConfig config;
  config.non_traceable_names_ = read_strings(at, "non_traceable_module_name", "module names");
  if (at.has("non_traceable_module_class")) {
    for (const JsonValue& item : at.at("non_traceable_module_class").elements("module classes"))
      config.non_traceable_classes_.push_back(read_module(item));
  }
  config.input_quantized_ = read_indexes(at, "input_quantized_idxs");
  config.output_quantized_ = read_indexes(at, "output_quantized_idxs");
  config.preserved_ = read_strings(at, "preserved_attributes", "attribute names");
  return config;
}

nlohmann::json PrepareCustomConfig::to_dict() const {
  nlohmann::json dict = nlohmann::json::object();
  if (!non_traceable_names_.empty()) dict["non_traceable_module_name"] = non_traceable_names_;
  for (const Symbol& type : non_traceable_classes_) dict["non_traceable_module_class"].push_back(type.name);
  if (!input_quantized_.empty()) dict["input_quantized_idxs"] = input_quantized_;
  if (!output_quantized_.empty()) dict["output_quantized_idxs"] = output_quantized_;
  if (!preserved_.empty()) dict["preserved_attributes"] = preserved_;
  return dict;
}

}  // namespace tsq
