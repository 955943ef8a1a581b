#include "config/custom_module.h"

#include <fmt/format.h>
#include <tsq/error.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "base/module_source.h"
#include "base/text.h"
#include "config/json_config.h"
#include "config/module_definition.h"
#include "config/names/known_names.h"

namespace tsq {
namespace {

using c10::ScalarType;

constexpr std::array<std::string_view, 3> kQuantTypes{"static", "dynamic", "weight_only"};
constexpr const char* kName = "name";

bool is_static_dtype(ScalarType dtype) {
  constexpr std::array kStatic{ScalarType::QUInt8,       ScalarType::QInt8, ScalarType::QUInt4x2,
                               ScalarType::QInt32,       ScalarType::Byte,  ScalarType::Char,
                               ScalarType::Short,        ScalarType::Int,   ScalarType::Float8_e5m2,
                               ScalarType::Float8_e4m3fn};
  return std::ranges::find(kStatic, dtype) != kStatic.end();
}

}  // namespace

std::string_view to_string(QuantType type) { return kQuantTypes.at(static_cast<std::size_t>(type)); }

QuantType get_quant_type(const QConfig& qconfig) {
  const ResolvedObserver activation = resolve(qconfig.activation);
  const ScalarType weight = resolve(qconfig.weight).dtype;
  if (is_static_dtype(weight)) {
    if (activation.is_dynamic) return QuantType::Dynamic;
    return is_static_dtype(activation.dtype) ? QuantType::Static : QuantType::WeightOnly;
  }
  if (weight == ScalarType::Half) {
    if (activation.is_dynamic) return QuantType::Dynamic;
    if (activation.dtype == ScalarType::Half) return QuantType::Static;
  }
  throw Error(ErrorCode::BadConfig,
              fmt::format("activations of {} with weights of {} are of no quantization type",
                          dtype_name(activation.dtype), dtype_name(weight)),
              "give the module a qconfig that is static, dynamic or weight-only");
}

QuantType read_quant_type(const JsonValue& at, std::string_view name) {
  const auto found = std::ranges::find(kQuantTypes, name);
  if (found == kQuantTypes.end())
    at.fail(fmt::format("'{}' is not a quantization type", name), suggestion(name, kQuantTypes));
  return static_cast<QuantType>(found - kQuantTypes.begin());
}

CustomModule read_custom_module(const JsonValue& at, std::string_view what, bool needs_name) {
  if (!at.json().is_object()) return {.name = read_module(at)};
  constexpr std::array<std::string_view, 1> kMore{kName};
  CustomModule module{.definition = read_module_definition(at, what, kMore)};
  if (at.has(kName)) {
    module.name = read_module(at.at(kName));
  } else if (!module.definition->source.empty()) {
    const std::string name =
        with_path(at, [&] { return class_in_source(module.definition->source, "custom module"); });
    module.name = parse_symbol("__torch__." + name);
  } else if (needs_name) {
    at.fail("a module out of a file needs a 'name', by which convert's config knows its class",
            "add one, as in 'my_package.Observed'");
  } else {
    module.name = parse_symbol("__torch__." + std::filesystem::path(module.definition->file).stem().string());
  }
  return module;
}

nlohmann::json to_json(const CustomModule& module) {
  if (!module.definition) return written_name(module.name);
  nlohmann::json dict = to_json(*module.definition);
  dict[kName] = written_name(module.name);
  return dict;
}

}  // namespace tsq
