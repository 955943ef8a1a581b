#include <array>
#include <utility>

#include "config/json.h"
#include "config/json_config.h"
#include "config/names/observer_classes.h"
#include "config/observer_arguments.h"
#include "config/observer_constructor.h"

namespace tsq {
namespace {

constexpr std::array<std::string_view, 17> kSpecKeys{"observer",
                                                     "fake_quantize",
                                                     "dtype",
                                                     "qscheme",
                                                     "reduce_range",
                                                     "quant_min",
                                                     "quant_max",
                                                     "eps",
                                                     "averaging_constant",
                                                     "ch_axis",
                                                     "is_dynamic",
                                                     "bins",
                                                     "scale",
                                                     "zero_point",
                                                     "group_size",
                                                     "percentile",
                                                     "use_grad_scaling"};

/// A dtype or a scheme that is null is an error; other arguments then have their default.
void read_optional(const JsonValue& at, std::string_view key, std::optional<c10::ScalarType>& value) {
  if (at.has(key)) value = read_dtype(at.at(key));
}
void read_optional(const JsonValue& at, std::string_view key, std::optional<c10::QScheme>& value) {
  if (!at.has(key)) return;
  const JsonValue given = at.at(key);
  value = with_path(given, [&] { return qscheme_from_name(given.string()); });
}

void write_optional(nlohmann::json& dict, const char* key, const std::optional<c10::ScalarType>& value) {
  if (value) dict[key] = dtype_name(*value);
}
void write_optional(nlohmann::json& dict, const char* key, const std::optional<c10::QScheme>& value) {
  if (value) dict[key] = qscheme_name(*value);
}

/// Of PyTorch's classes without their package.
std::string class_name(const JsonValue& at) {
  const std::string& name = at.string();
  return name.starts_with("torch.ao.quantization.") ? name.substr(name.rfind('.') + 1) : name;
}

/// The class alone, or with its arguments. That of a fake quantize module may have arguments of its own.
ObserverSpec read_classes(const JsonValue& at) {
  if (at.is_string()) return {.observer = class_name(at)};
  at.expect_object("observer", kSpecKeys);
  ObserverSpec spec;
  const bool is_fake_quantize = at.has("fake_quantize");
  if (at.has("observer") || !is_fake_quantize) spec = read_classes(at.at("observer"));
  if (is_fake_quantize) spec.fake_quantize = class_name(at.at("fake_quantize"));
  visit_arguments(spec, [&](const char* key, auto& value) { read_optional(at, key, value); });
  return spec;
}

}  // namespace

ObserverSpec read_observer_spec(const JsonValue& at) {
  ObserverSpec spec = read_classes(at);
  // PyTorch's QConfigs hold modules that observe: observers, or fake quantize modules with observers in them.
  if (!observer_of_fake_quantize(spec.observer).empty())
    spec.fake_quantize = std::exchange(spec.observer, {});
  if (spec.observer.empty() && !spec.fake_quantize.empty()) {
    const std::string_view own = observer_of_fake_quantize(spec.fake_quantize);
    spec.observer = own.empty() ? observer_classes::kMovingAverageMinMax : own;
  }
  with_path(at, [&] { return resolve(spec); });
  return spec;
}

ObserverSpec ObserverSpec::from_dict(const nlohmann::json& dict) {
  return read_observer_spec(JsonValue(dict));
}

nlohmann::json ObserverSpec::to_dict() const {
  nlohmann::json dict = {{"observer", observer}};
  if (!fake_quantize.empty()) dict["fake_quantize"] = fake_quantize;
  visit_arguments(*this, [&](const char* key, const auto& value) { write_optional(dict, key, value); });
  return dict;
}

}  // namespace tsq
