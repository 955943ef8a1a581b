#include <fmt/format.h>
#include <tsq/dtype_config.h>
#include <tsq/error.h>

#include <algorithm>
#include <array>

#include "base/text.h"
#include "config/json.h"
#include "config/json_config.h"

namespace tsq {
namespace {

using c10::ScalarType;

struct DTypeName {
  std::string_view name;
  ScalarType dtype;
};

/// The first name of a dtype is the one that is written.
constexpr std::array kDTypeNames{
    DTypeName{"quint8", ScalarType::QUInt8},
    DTypeName{"qint8", ScalarType::QInt8},
    DTypeName{"qint32", ScalarType::QInt32},
    DTypeName{"quint4x2", ScalarType::QUInt4x2},
    DTypeName{"quint2x4", ScalarType::QUInt2x4},
    DTypeName{"float", ScalarType::Float},
    DTypeName{"float32", ScalarType::Float},
    DTypeName{"float16", ScalarType::Half},
    DTypeName{"half", ScalarType::Half},
    DTypeName{"bfloat16", ScalarType::BFloat16},
    DTypeName{"float64", ScalarType::Double},
    DTypeName{"double", ScalarType::Double},
    DTypeName{"uint8", ScalarType::Byte},
    DTypeName{"int8", ScalarType::Char},
    DTypeName{"int16", ScalarType::Short},
    DTypeName{"short", ScalarType::Short},
    DTypeName{"uint16", ScalarType::UInt16},
    DTypeName{"int32", ScalarType::Int},
    DTypeName{"int", ScalarType::Int},
    DTypeName{"int64", ScalarType::Long},
    DTypeName{"long", ScalarType::Long},
    DTypeName{"bool", ScalarType::Bool},
    DTypeName{"float8_e5m2", ScalarType::Float8_e5m2},
    DTypeName{"float8_e4m3fn", ScalarType::Float8_e4m3fn},
};

constexpr std::array<std::string_view, 7> kConstraintKeys{"dtype",
                                                          "quant_min_lower_bound",
                                                          "quant_max_upper_bound",
                                                          "scale_min_lower_bound",
                                                          "scale_max_upper_bound",
                                                          "scale_exact_match",
                                                          "zero_point_exact_match"};

constexpr std::array<std::string_view, 5> kDTypeConfigKeys{"input_dtype", "output_dtype", "weight_dtype",
                                                           "bias_dtype", "is_dynamic"};

bool has_constraints(const DTypeWithConstraints& dtype) {
  return dtype != DTypeWithConstraints{.dtype = dtype.dtype};
}

void check(const DTypeWithConstraints& dtype, const JsonValue& at) {
  if (!dtype.dtype && has_constraints(dtype)) at.fail("constraints without a dtype", "add \"dtype\"");
  if (dtype.quant_min_lower_bound && dtype.quant_max_upper_bound &&
      *dtype.quant_min_lower_bound > *dtype.quant_max_upper_bound)
    at.fail(fmt::format("quant_min_lower_bound {} is above quant_max_upper_bound {}",
                        *dtype.quant_min_lower_bound, *dtype.quant_max_upper_bound));
  if (dtype.scale_min_lower_bound && dtype.scale_max_upper_bound &&
      *dtype.scale_min_lower_bound > *dtype.scale_max_upper_bound)
    at.fail(fmt::format("scale_min_lower_bound {} is above scale_max_upper_bound {}",
                        *dtype.scale_min_lower_bound, *dtype.scale_max_upper_bound));
}

}  // namespace

std::string_view dtype_name(ScalarType dtype) {
  const auto found = std::ranges::find(kDTypeNames, dtype, &DTypeName::dtype);
  return found == kDTypeNames.end() ? std::string_view(c10::toString(dtype)) : found->name;
}

ScalarType dtype_from_name(std::string_view name) {
  constexpr std::string_view kPrefix = "torch.";
  const std::string_view bare = name.starts_with(kPrefix) ? name.substr(kPrefix.size()) : name;
  const auto found = std::ranges::find(kDTypeNames, bare, &DTypeName::name);
  if (found != kDTypeNames.end()) return found->dtype;
  std::vector<std::string_view> names;
  for (const DTypeName& known : kDTypeNames) names.push_back(known.name);
  throw Error(ErrorCode::BadConfig, fmt::format("'{}' is not a dtype", name), suggestion(bare, names));
}

ScalarType read_dtype(const JsonValue& at) {
  return with_path(at, [&] { return dtype_from_name(at.string()); });
}

DTypeWithConstraints read_dtype_with_constraints(const JsonValue& at) {
  if (at.is_string()) return {.dtype = read_dtype(at)};
  at.expect_object("DTypeWithConstraints", kConstraintKeys);
  DTypeWithConstraints dtype;
  if (at.has("dtype") && !at.at("dtype").is_null()) dtype.dtype = read_dtype(at.at("dtype"));
  read_optional(at, "quant_min_lower_bound", dtype.quant_min_lower_bound);
  read_optional(at, "quant_max_upper_bound", dtype.quant_max_upper_bound);
  read_optional(at, "scale_min_lower_bound", dtype.scale_min_lower_bound);
  read_optional(at, "scale_max_upper_bound", dtype.scale_max_upper_bound);
  read_optional(at, "scale_exact_match", dtype.scale_exact_match);
  read_optional(at, "zero_point_exact_match", dtype.zero_point_exact_match);
  check(dtype, at);
  return dtype;
}

DTypeConfig read_dtype_config(const JsonValue& at) {
  at.expect_object("DTypeConfig", kDTypeConfigKeys);
  DTypeConfig config;
  const auto read = [&](std::string_view key, DTypeWithConstraints& dtype) {
    if (at.has(key) && !at.at(key).is_null()) dtype = read_dtype_with_constraints(at.at(key));
  };
  read("input_dtype", config.input_dtype);
  read("output_dtype", config.output_dtype);
  read("weight_dtype", config.weight_dtype);
  if (at.has("bias_dtype") && !at.at("bias_dtype").is_null())
    config.bias_dtype = read_dtype(at.at("bias_dtype"));
  read_optional(at, "is_dynamic", config.is_dynamic);
  return config;
}

DTypeWithConstraints DTypeWithConstraints::from_dict(const nlohmann::json& dict) {
  return read_dtype_with_constraints(JsonValue(dict));
}

nlohmann::json DTypeWithConstraints::to_dict() const {
  if (dtype && !has_constraints(*this)) return dtype_name(*dtype);
  nlohmann::json dict = nlohmann::json::object();
  if (dtype) dict["dtype"] = dtype_name(*dtype);
  write_optional(dict, "quant_min_lower_bound", quant_min_lower_bound);
  write_optional(dict, "quant_max_upper_bound", quant_max_upper_bound);
  write_optional(dict, "scale_min_lower_bound", scale_min_lower_bound);
  write_optional(dict, "scale_max_upper_bound", scale_max_upper_bound);
  write_optional(dict, "scale_exact_match", scale_exact_match);
  write_optional(dict, "zero_point_exact_match", zero_point_exact_match);
  return dict;
}

DTypeConfig DTypeConfig::from_dict(const nlohmann::json& dict) { return read_dtype_config(JsonValue(dict)); }

nlohmann::json DTypeConfig::to_dict() const {
  nlohmann::json dict = nlohmann::json::object();
  if (input_dtype.dtype) dict["input_dtype"] = input_dtype.to_dict();
  if (output_dtype.dtype) dict["output_dtype"] = output_dtype.to_dict();
  if (weight_dtype.dtype) dict["weight_dtype"] = weight_dtype.to_dict();
  if (bias_dtype) dict["bias_dtype"] = dtype_name(*bias_dtype);
  write_optional(dict, "is_dynamic", is_dynamic);
  return dict;
}

}  // namespace tsq
