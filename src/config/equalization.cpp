#include <fmt/format.h>
#include <tsq/equalization.h>
#include <tsq/error.h>

#include <array>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "config/json.h"
#include "config/json_config.h"

namespace tsq {
namespace {

constexpr std::string_view kDefaultName = "default_equalization_qconfig";
constexpr std::array<std::string_view, 2> kKeys{"input_activation", "weight"};

ObserverSpec read_observer(const JsonValue& at, std::string_view wanted) {
  ObserverSpec spec = read_observer_spec(at);
  if (spec.observer != wanted)
    at.fail(fmt::format("'{}' cannot equalize", spec.observer), fmt::format("use '{}'", wanted));
  if (spec.ch_axis) at.fail("the channels' axis follows from the layer", "leave out 'ch_axis'");
  return spec;
}

EqualizationQConfig read_equalization_qconfig(const JsonValue& at) {
  if (at.is_string()) {
    if (at.string() != kDefaultName)
      at.fail(fmt::format("'{}' is not a named EqualizationQConfig", at.string()),
              suggestion(at.string(), std::array{kDefaultName}));
    return {};
  }
  at.expect_object("EqualizationQConfig", kKeys);
  const EqualizationQConfig defaults;
  return {read_observer(at.at("input_activation"), defaults.input_activation.observer),
          read_observer(at.at("weight"), defaults.weight.observer)};
}

MaybeQConfig as_qconfig(const MaybeEqualizationQConfig& config) {
  return config ? std::optional(QConfig{config->input_activation, config->weight}) : std::nullopt;
}

MaybeQConfig read_entry(const JsonValue& at) {
  return at.is_null() ? std::nullopt : as_qconfig(read_equalization_qconfig(at));
}

nlohmann::json write_entry(const QConfig& entry) {
  return EqualizationQConfig{entry.activation, entry.weight}.to_dict();
}

}  // namespace

EqualizationQConfig EqualizationQConfig::from_dict(const nlohmann::json& dict) {
  return read_equalization_qconfig(JsonValue(dict));
}

nlohmann::json EqualizationQConfig::to_dict() const {
  return {{"input_activation", input_activation.to_dict()}, {"weight", weight.to_dict()}};
}

EqualizationQConfig default_equalization_qconfig() { return {}; }

EqualizationMapping& EqualizationMapping::set_global(const MaybeEqualizationQConfig& config) {
  entries_.set_global(as_qconfig(config));
  return *this;
}

EqualizationMapping& EqualizationMapping::set_object_type(Symbol type,
                                                          const MaybeEqualizationQConfig& config) {
  entries_.set_object_type(type, as_qconfig(config));
  return *this;
}

EqualizationMapping& EqualizationMapping::set_module_name_regex(std::string regex,
                                                                const MaybeEqualizationQConfig& config) {
  entries_.set_module_name_regex(std::move(regex), as_qconfig(config));
  return *this;
}

EqualizationMapping& EqualizationMapping::set_module_name(std::string name,
                                                          const MaybeEqualizationQConfig& config) {
  entries_.set_module_name(std::move(name), as_qconfig(config));
  return *this;
}

EqualizationMapping& EqualizationMapping::set_module_name_object_type_order(
    std::string name, Symbol type, int index, const MaybeEqualizationQConfig& config) {
  entries_.set_module_name_object_type_order(std::move(name), type, index, as_qconfig(config));
  return *this;
}

EqualizationMapping EqualizationMapping::from_dict(const nlohmann::json& dict) {
  EqualizationMapping mapping;
  std::vector<std::string> notes;
  mapping.entries_ = read_mapping(JsonValue(dict), "EqualizationMapping", read_entry, notes);
  return mapping;
}

nlohmann::json EqualizationMapping::to_dict() const { return mapping_to_dict(entries_, write_entry); }

}  // namespace tsq
