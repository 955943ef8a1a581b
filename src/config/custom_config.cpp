#include <fmt/format.h>
#include <tsq/custom_config.h>
#include <tsq/error.h>

#include <algorithm>
#include <array>

#include "base/entries.h"
#include "base/mapped.h"
#include "config/custom_module.h"
#include "config/json.h"
#include "config/json_config.h"

namespace tsq {
namespace {

constexpr const char* kToObserved = "float_to_observed_custom_module_class";
constexpr const char* kToQuantized = "observed_to_quantized_custom_module_class";
constexpr std::array<std::string_view, 8> kPrepareKeys{
    "standalone_module_name",    "standalone_module_class",    kToObserved,
    "non_traceable_module_name", "non_traceable_module_class", "input_quantized_idxs",
    "output_quantized_idxs",     "preserved_attributes"};
constexpr std::array<std::string_view, 2> kConvertKeys{kToQuantized, "preserved_attributes"};
constexpr std::array<std::string_view, 1> kFuseKeys{"preserved_attributes"};

/// PyTorch's map of types to maps of classes, {"static": {"my.Float": "my.Observed"}}: calls
/// `set(class, module, type)`.
template <typename Set>
void read_custom_modules(const JsonValue& at, std::string_view key, std::string_view what, const Set& set) {
  if (!at.has(key)) return;
  const JsonValue types = at.at(key);
  for (const auto& [type, classes] : types.members("quantization types and their classes")) {
    const QuantType quant_type = read_quant_type(types, type);
    for (const auto& [name, module] : classes.members("classes and what takes their places")) {
      const nlohmann::json written = name;
      const Symbol replaced = read_module(JsonValue(written, module.path()));
      const CustomModule by = read_custom_module(module, what, /*needs_name=*/key == kToObserved);
      with_path(module, [&] { set(replaced, by, quant_type); });
    }
  }
}

nlohmann::json classes_to_dict(const std::vector<std::pair<Symbol, CustomModule>>& classes) {
  nlohmann::json dict = nlohmann::json::object();
  for (const auto& [from, to] : classes) dict[written_name(from)] = to_json(to);
  return dict;
}

std::vector<std::string> read_strings(const JsonValue& at, std::string_view key, std::string_view of_what) {
  if (!at.has(key)) return {};
  return mapped(at.at(key).elements(of_what, kMostModules), &JsonValue::string);
}

std::vector<int> read_indexes(const JsonValue& at, std::string_view key) {
  std::vector<int> indexes;
  if (!at.has(key)) return indexes;
  for (const JsonValue& item : at.at(key).elements("indexes")) {
    const int index = item.index();
    if (std::ranges::find(indexes, index) != indexes.end())
      item.fail(fmt::format("the index {} occurs twice", index));
    indexes.push_back(index);
  }
  return indexes;
}

/// Shared, because a configuration holds another of its own kind.
std::shared_ptr<const StandaloneModuleConfig> shared(StandaloneModuleConfig config) {
  return std::make_shared<const StandaloneModuleConfig>(std::move(config));
}

template <typename Entries, typename Key>
const StandaloneModuleConfig* find_config(const Entries& entries, const Key& key) {
  const auto* const entry = find_entry(entries, key);
  return entry == nullptr ? nullptr : entry->second.get();
}

/// PyTorch's tuple after the name: (qconfig mapping, example inputs, prepare custom config, backend config).
StandaloneModuleConfig read_standalone(const std::vector<JsonValue>& tuple) {
  StandaloneModuleConfig config;
  const auto given = [&](std::size_t index) { return index < tuple.size() && !tuple[index].is_null(); };
  if (given(1))
    config.qconfig_mapping = with_path(tuple[1], [&] { return QConfigMapping::from_dict(tuple[1].json()); });
  if (given(3))
    config.prepare_custom_config =
        with_path(tuple[3], [&] { return PrepareCustomConfig::from_dict(tuple[3].json()); });
  if (given(4))
    config.backend_config = with_path(tuple[4], [&] { return BackendConfig::from_dict(tuple[4].json()); });
  return config;
}

std::vector<JsonValue> read_standalone_tuple(const JsonValue& at) {
  auto tuple = at.elements("name, qconfig mapping, example inputs, prepare custom config, backend config");
  if (tuple.empty() || tuple.size() > 5)
    at.fail(
        fmt::format("got {} elements, wanted [name, qconfig mapping, example inputs, prepare custom "
                    "config, backend config]",
                    tuple.size()));
  return tuple;
}

nlohmann::json standalone_to_dict(std::string_view key, const StandaloneModuleConfig& config) {
  nlohmann::json custom = config.prepare_custom_config.to_dict();
  return nlohmann::json::array({std::string(key),
                                config.qconfig_mapping ? config.qconfig_mapping->to_dict() : nlohmann::json(),
                                nlohmann::json(), custom.empty() ? nlohmann::json() : std::move(custom),
                                config.backend_config ? config.backend_config->to_dict() : nlohmann::json()});
}

}  // namespace

PrepareCustomConfig& PrepareCustomConfig::set_standalone_module_name(std::string name,
                                                                     StandaloneModuleConfig config) {
  set_entry(standalone_names_, std::move(name), shared(std::move(config)));
  return *this;
}

PrepareCustomConfig& PrepareCustomConfig::set_standalone_module_class(Symbol type,
                                                                      StandaloneModuleConfig config) {
  set_entry(standalone_classes_, type, shared(std::move(config)));
  return *this;
}

const StandaloneModuleConfig* PrepareCustomConfig::standalone_module(const std::string& path,
                                                                     Symbol type) const {
  const StandaloneModuleConfig* by_name = find_config(standalone_names_, path);
  return by_name != nullptr ? by_name : find_config(standalone_classes_, type);
}

PrepareCustomConfig& PrepareCustomConfig::set_float_to_observed_mapping(Symbol float_class,
                                                                        CustomModule observed,
                                                                        QuantType quant_type) {
  if (quant_type != QuantType::Static) {
    throw Error(ErrorCode::BadConfig,
                fmt::format("observed modules are for static quantization alone, not for '{}'",
                            to_string(quant_type)),
                "name the class under 'static'");
  }
  set_entry(float_to_observed_, float_class, std::move(observed));
  return *this;
}

const CustomModule* PrepareCustomConfig::observed_module(Symbol float_class) const {
  const auto* const entry = find_entry(float_to_observed_, float_class);
  return entry == nullptr ? nullptr : &entry->second;
}

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
  PrepareCustomConfig config;
  if (at.has("standalone_module_name")) {
    for (const JsonValue& item : at.at("standalone_module_name").elements("standalone modules")) {
      const auto tuple = read_standalone_tuple(item);
      config.set_standalone_module_name(tuple.front().string(), read_standalone(tuple));
    }
  }
  if (at.has("standalone_module_class")) {
    for (const JsonValue& item : at.at("standalone_module_class").elements("standalone modules")) {
      const auto tuple = read_standalone_tuple(item);
      config.set_standalone_module_class(read_module(tuple.front()), read_standalone(tuple));
    }
  }
  read_custom_modules(at, kToObserved, "an observed module",
                      [&](Symbol from, const CustomModule& observed, QuantType type) {
                        config.set_float_to_observed_mapping(from, observed, type);
                      });
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
  for (const auto& [name, config] : standalone_names_)
    dict["standalone_module_name"].push_back(standalone_to_dict(name, *config));
  for (const auto& [type, config] : standalone_classes_)
    dict["standalone_module_class"].push_back(standalone_to_dict(written_name(type), *config));
  if (!float_to_observed_.empty()) dict[kToObserved]["static"] = classes_to_dict(float_to_observed_);
  if (!non_traceable_names_.empty()) dict["non_traceable_module_name"] = non_traceable_names_;
  for (const Symbol& type : non_traceable_classes_)
    dict["non_traceable_module_class"].push_back(written_name(type));
  if (!input_quantized_.empty()) dict["input_quantized_idxs"] = input_quantized_;
  if (!output_quantized_.empty()) dict["output_quantized_idxs"] = output_quantized_;
  if (!preserved_.empty()) dict["preserved_attributes"] = preserved_;
  return dict;
}

ConvertCustomConfig& ConvertCustomConfig::set_preserved_attributes(std::vector<std::string> names) {
  preserved_ = std::move(names);
  return *this;
}

ConvertCustomConfig& ConvertCustomConfig::set_observed_to_quantized_mapping(Symbol observed_class,
                                                                            CustomModule quantized,
                                                                            QuantType quant_type) {
  set_entry(observed_to_quantized_.at(static_cast<std::size_t>(quant_type)), observed_class,
            std::move(quantized));
  return *this;
}

const CustomModule* ConvertCustomConfig::quantized_module(Symbol observed_class, QuantType quant_type) const {
  const auto* const entry =
      find_entry(observed_to_quantized_.at(static_cast<std::size_t>(quant_type)), observed_class);
  return entry == nullptr ? nullptr : &entry->second;
}

bool ConvertCustomConfig::is_observed_class(Symbol observed_class) const {
  return std::ranges::any_of(observed_to_quantized_, [&](const auto& classes) {
    return find_entry(classes, observed_class) != nullptr;
  });
}

ConvertCustomConfig ConvertCustomConfig::from_dict(const nlohmann::json& dict) {
  const JsonValue at(dict);
  at.expect_object("ConvertCustomConfig", kConvertKeys);
  ConvertCustomConfig config;
  read_custom_modules(at, kToQuantized, "a quantized module",
                      [&](Symbol from, const CustomModule& quantized, QuantType type) {
                        config.set_observed_to_quantized_mapping(from, quantized, type);
                      });
  return config.set_preserved_attributes(read_strings(at, "preserved_attributes", "attribute names"));
}

nlohmann::json ConvertCustomConfig::to_dict() const {
  nlohmann::json dict = nlohmann::json::object();
  for (const QuantType type : {QuantType::Static, QuantType::Dynamic, QuantType::WeightOnly}) {
    const auto& classes = observed_to_quantized_.at(static_cast<std::size_t>(type));
    if (!classes.empty()) dict[kToQuantized][std::string(to_string(type))] = classes_to_dict(classes);
  }
  if (!preserved_.empty()) dict["preserved_attributes"] = preserved_;
  return dict;
}

FuseCustomConfig& FuseCustomConfig::set_preserved_attributes(std::vector<std::string> names) {
  preserved_ = std::move(names);
  return *this;
}

FuseCustomConfig FuseCustomConfig::from_dict(const nlohmann::json& dict) {
  const JsonValue at(dict);
  at.expect_object("FuseCustomConfig", kFuseKeys);
  return FuseCustomConfig().set_preserved_attributes(
      read_strings(at, "preserved_attributes", "attribute names"));
}

nlohmann::json FuseCustomConfig::to_dict() const {
  return preserved_.empty() ? nlohmann::json::object() : nlohmann::json{{"preserved_attributes", preserved_}};
}

}  // namespace tsq
