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

constexpr std::array<std::string_view, 9> kDTypeConfigKeys{"input_dtype",
                                                           "output_dtype",
                                                           "weight_dtype",
                                                           "bias_dtype",
                                                           "is_dynamic",
                                                           "input_dtype_with_constraints",
                                                           "output_dtype_with_constraints",
                                                           "weight_dtype_with_constraints",
                                                           "bias_type"};

/// Calls `visit` with the name and the value of each constraint.
template <typename DType, typename Visit>
void visit_constraints(DType& dtype, const Visit& visit) {
  visit("quant_min_lower_bound", dtype.quant_min_lower_bound);
  visit("quant_max_upper_bound", dtype.quant_max_upper_bound);
  visit("scale_min_lower_bound", dtype.scale_min_lower_bound);
  visit("scale_max_upper_bound", dtype.scale_max_upper_bound);
  visit("scale_exact_match", dtype.scale_exact_match);
  visit("zero_point_exact_match", dtype.zero_point_exact_match);
}

bool has_constraints(const DTypeWithConstraints& dtype) {
  return dtype != DTypeWithConstraints{.dtype = dtype.dtype};
}

void check(const DTypeWithConstraints& dtype, const JsonValue& at) {
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
  const std::string_view bare = without_prefix(name, "torch.");
  const auto found = std::ranges::find(kDTypeNames, bare, &DTypeName::name);
  if (found != kDTypeNames.end()) return found->dtype;
  throw Error(ErrorCode::BadConfig, fmt::format("'{}' is not a dtype", name),
              suggestion(bare, names_of(kDTypeNames, &DTypeName::name)));
}

ScalarType read_dtype(const JsonValue& at) {
  return with_path(at, [&] { return dtype_from_name(at.string()); });
}

namespace {

/// What an object or a name says; the dtype may be missing.
DTypeWithConstraints read_constraints(const JsonValue& at) {
  if (at.is_string()) return {.dtype = read_dtype(at)};
  at.expect_object("DTypeWithConstraints", kConstraintKeys);
  DTypeWithConstraints dtype;
  if (at.is_given("dtype")) dtype.dtype = read_dtype(at.at("dtype"));
  visit_constraints(dtype, [&](const char* key, auto& value) { read_optional(at, key, value); });
  check(dtype, at);
  return dtype;
}

void check_has_dtype(const DTypeWithConstraints& dtype, const JsonValue& at) {
  if (!dtype.dtype && has_constraints(dtype)) at.fail("constraints without a dtype", "add \"dtype\"");
}

/// The documents read a port in two ways: `input_dtype` is the dtype or the dtype with its constraints, and
/// `input_dtype_with_constraints` is the latter.
DTypeWithConstraints read_port(const JsonValue& at, const std::string& key) {
  const std::string long_key = key + "_with_constraints";
  const DTypeWithConstraints plain = at.is_given(key) ? read_constraints(at.at(key)) : DTypeWithConstraints{};
  if (!at.is_given(long_key)) {
    if (at.is_given(key)) check_has_dtype(plain, at.at(key));
    return plain;
  }
  DTypeWithConstraints whole = read_constraints(at.at(long_key));
  if (!whole.dtype) whole.dtype = plain.dtype;
  check_has_dtype(whole, at.at(long_key));
  if ((plain.dtype && plain.dtype != whole.dtype) || (has_constraints(plain) && plain != whole))
    at.fail(fmt::format("'{}' is {} and '{}' is {}", key, at.at(key).json().dump(), long_key,
                        at.at(long_key).json().dump()),
            "they mean the same; make them agree or keep one");
  return whole;
}

/// `bias_type` is the documents' spelling of `bias_dtype`.
std::optional<ScalarType> read_bias(const JsonValue& at) {
  std::optional<ScalarType> bias;
  for (const char* key : {"bias_dtype", "bias_type"}) {
    if (!at.is_given(key)) continue;
    const ScalarType dtype = read_dtype(at.at(key));
    if (bias && *bias != dtype)
      at.fail(fmt::format("'bias_dtype' is {} and 'bias_type' is {}", dtype_name(*bias), dtype_name(dtype)),
              "they mean the same; make them agree or keep one");
    bias = dtype;
  }
  return bias;
}

}  // namespace

DTypeConfig read_dtype_config(const JsonValue& at) {
  at.expect_object("DTypeConfig", kDTypeConfigKeys);
  DTypeConfig config{.input_dtype = read_port(at, "input_dtype"),
                     .output_dtype = read_port(at, "output_dtype"),
                     .weight_dtype = read_port(at, "weight_dtype"),
                     .bias_dtype = read_bias(at)};
  read_optional(at, "is_dynamic", config.is_dynamic);
  return config;
}

DTypeWithConstraints DTypeWithConstraints::from_dict(const nlohmann::json& dict) {
  const JsonValue at(dict);
  const DTypeWithConstraints dtype = read_constraints(at);
  check_has_dtype(dtype, at);
  return dtype;
}

nlohmann::json DTypeWithConstraints::to_dict() const {
  if (dtype && !has_constraints(*this)) return dtype_name(*dtype);
  nlohmann::json dict = nlohmann::json::object();
  if (dtype) dict["dtype"] = dtype_name(*dtype);
  visit_constraints(*this, [&](const char* key, const auto& value) { write_optional(dict, key, value); });
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
