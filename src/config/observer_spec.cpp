#include <fmt/format.h>
#include <tsq/error.h>
#include <tsq/qconfig.h>

#include <algorithm>
#include <array>
#include <limits>
#include <string>

#include "base/text.h"
#include "config/json.h"
#include "config/json_config.h"
#include "config/observer_classes.h"

namespace tsq {
namespace {

using c10::QScheme;
using c10::ScalarType;

constexpr double kFloat32Eps = std::numeric_limits<float>::epsilon();

struct QSchemeName {
  std::string_view name;
  QScheme qscheme;
};

constexpr std::array kQSchemeNames{
    QSchemeName{"per_tensor_affine", c10::kPerTensorAffine},
    QSchemeName{"per_tensor_symmetric", c10::kPerTensorSymmetric},
    QSchemeName{"per_channel_affine", c10::kPerChannelAffine},
    QSchemeName{"per_channel_symmetric", c10::kPerChannelSymmetric},
    QSchemeName{"per_channel_affine_float_qparams", c10::kPerChannelAffineFloatQParams},
};

bool is_per_channel(QScheme qscheme) {
  return qscheme == c10::kPerChannelAffine || qscheme == c10::kPerChannelSymmetric ||
         qscheme == c10::kPerChannelAffineFloatQParams;
}

bool is_symmetric(QScheme qscheme) {
  return qscheme == c10::kPerTensorSymmetric || qscheme == c10::kPerChannelSymmetric;
}

/// What a constructor of PyTorch takes and what it takes when it is not told. Source:
/// torch/ao/quantization/observer.py.
struct ObserverClass {
  enum class Range { None, AsGiven, Fixed, Calculated };

  std::string_view name;
  ScalarType dtype;
  QScheme qscheme;
  Range range;       ///< Calculated: calculate_qmin_qmax (M-07); Fixed: 0 to 255; AsGiven: empty unless given
  bool per_channel;  ///< the kind of scheme that a calculated range wants
  bool is_dynamic;   ///< is_dynamic may be true
  std::string_view arguments;
};

using enum ObserverClass::Range;

constexpr std::array kObserverClasses{
    ObserverClass{observer_classes::kMinMax, ScalarType::QUInt8, c10::kPerTensorAffine, Calculated, false,
                  true, "dtype qscheme reduce_range quant_min quant_max eps is_dynamic"},
    ObserverClass{observer_classes::kMovingAverageMinMax, ScalarType::QUInt8, c10::kPerTensorAffine,
                  Calculated, false, true,
                  "averaging_constant dtype qscheme reduce_range quant_min quant_max eps is_dynamic"},
    ObserverClass{observer_classes::kPerChannelMinMax, ScalarType::QUInt8, c10::kPerChannelAffine, Calculated,
                  true, false,
                  "ch_axis dtype qscheme reduce_range quant_min quant_max eps is_dynamic group_size"},
    ObserverClass{observer_classes::kMovingAveragePerChannelMinMax, ScalarType::QUInt8,
                  c10::kPerChannelAffine, Calculated, true, false,
                  "averaging_constant ch_axis dtype qscheme reduce_range quant_min quant_max eps is_dynamic"},
    ObserverClass{observer_classes::kHistogram, ScalarType::QUInt8, c10::kPerTensorAffine, Calculated, false,
                  false, "bins dtype qscheme reduce_range quant_min quant_max eps is_dynamic"},
    ObserverClass{observer_classes::kFixedQParams, ScalarType::QUInt8, c10::kPerTensorAffine, Fixed, false,
                  false, "scale zero_point dtype qscheme quant_min quant_max is_dynamic"},
    ObserverClass{observer_classes::kPlaceholder, ScalarType::Float, c10::kPerTensorAffine, AsGiven, false,
                  true, "dtype quant_min quant_max qscheme eps is_dynamic"},
    ObserverClass{observer_classes::kRecording, ScalarType::QUInt8, c10::kPerTensorAffine, None, false, false,
                  "dtype"},
    ObserverClass{observer_classes::kNoop, ScalarType::Half, c10::kPerTensorAffine, None, false, false,
                  "dtype"},
    ObserverClass{observer_classes::kReuseInput, ScalarType::QUInt8, c10::kPerTensorAffine, None, false,
                  false, ""},
    // fx/_equalize.py; tsq sets ch_axis, the axis of the input channels.
    ObserverClass{observer_classes::kInputEqualization, ScalarType::QUInt8, c10::kPerTensorAffine, Calculated,
                  false, false, "ch_axis dtype qscheme quant_min quant_max"},
    ObserverClass{observer_classes::kWeightEqualization, ScalarType::QInt8, c10::kPerTensorAffine, None,
                  false, false, "ch_axis dtype qscheme quant_min quant_max"},
    // tsq's own: ranges by their error, by a share of the values, by information; statistics of channels.
    ObserverClass{observer_classes::kMSE, ScalarType::QUInt8, c10::kPerTensorAffine, Calculated, false, false,
                  "bins dtype qscheme reduce_range quant_min quant_max eps is_dynamic"},
    ObserverClass{observer_classes::kPercentile, ScalarType::QUInt8, c10::kPerTensorAffine, Calculated, false,
                  false, "percentile bins dtype qscheme reduce_range quant_min quant_max eps is_dynamic"},
    ObserverClass{observer_classes::kEntropy, ScalarType::QUInt8, c10::kPerTensorAffine, Calculated, false,
                  false, "bins dtype qscheme reduce_range quant_min quant_max eps is_dynamic"},
    ObserverClass{observer_classes::kInputProducts, ScalarType::Float, c10::kPerTensorAffine, None, false,
                  false, "ch_axis group_size"},
    ObserverClass{observer_classes::kChannelStatistics, ScalarType::Float, c10::kPerTensorAffine, None, false,
                  false, "ch_axis"},
    ObserverClass{observer_classes::kIdentity, ScalarType::Float, c10::kPerTensorAffine, None, false, false,
                  ""},
};

constexpr std::array<std::string_view, 3> kFakeQuantizeClasses{
    "FakeQuantize", "FusedMovingAvgObsFakeQuantize", "FixedQParamsFakeQuantize"};

/// The dtypes of UniformQuantizationObserverBase, and quint2x4 for embeddings.
constexpr std::array kUniformDTypes{ScalarType::QInt8,         ScalarType::QUInt8, ScalarType::QUInt4x2,
                                    ScalarType::QInt32,        ScalarType::Char,   ScalarType::Byte,
                                    ScalarType::Short,         ScalarType::Int,    ScalarType::Float8_e5m2,
                                    ScalarType::Float8_e4m3fn, ScalarType::UInt16, ScalarType::QUInt2x4};

constexpr std::array<std::string_view, 16> kSpecKeys{
    "observer",   "fake_quantize",      "dtype",   "qscheme",    "reduce_range", "quant_min", "quant_max",
    "eps",        "averaging_constant", "ch_axis", "is_dynamic", "bins",         "scale",     "zero_point",
    "group_size", "percentile"};

struct Range {
  int64_t min;
  int64_t max;
};

/// The representable values. Sub-byte and 8-bit float types count as calculate_qmin_qmax counts them.
Range range_of(ScalarType dtype) {
  switch (dtype) {
    case ScalarType::QInt8:
    case ScalarType::Char:
      return {-128, 127};
    case ScalarType::QUInt8:
    case ScalarType::Byte:
      return {0, 255};
    case ScalarType::QInt32:
    case ScalarType::Int:
      return {std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()};
    case ScalarType::UInt16:
      return {0, 65535};
    case ScalarType::Short:
      return {-32768, 32767};
    case ScalarType::QUInt2x4:
      return {0, 3};
    default:
      return {0, 15};
  }
}

/// Python's floor division by two: -127 becomes -64.
int64_t halved(int64_t value) { return value >> 1; }

[[noreturn]] void fail(const ObserverSpec& spec, const std::string& problem, const std::string& remedy = {}) {
  throw Error(ErrorCode::BadConfig, fmt::format("{}: {}", spec.observer, problem), remedy);
}

const ObserverClass& class_of(const ObserverSpec& spec) {
  const auto found = std::ranges::find(kObserverClasses, spec.observer, &ObserverClass::name);
  if (found != kObserverClasses.end()) return *found;
  std::vector<std::string_view> names;
  for (const ObserverClass& known : kObserverClasses) names.push_back(known.name);
  if (spec.observer.empty())
    throw Error(ErrorCode::BadConfig, "an observer has no class", "known: " + quoted_list(names));
  throw Error(ErrorCode::BadConfig, fmt::format("'{}' is not an observer", spec.observer),
              suggestion(spec.observer, names));
}

bool takes(const ObserverClass& known, std::string_view argument) {
  std::string_view rest = known.arguments;
  while (!rest.empty()) {
    const auto space = rest.find(' ');
    if (rest.substr(0, space) == argument) return true;
    rest = space == std::string_view::npos ? std::string_view{} : rest.substr(space + 1);
  }
  return false;
}

void check_arguments(const ObserverClass& known, const ObserverSpec& spec) {
  const auto check = [&](std::string_view argument, bool given) {
    if (given && !takes(known, argument))
      fail(spec, fmt::format("takes no argument '{}'", argument),
           known.arguments.empty() ? "it takes none" : fmt::format("it takes: {}", known.arguments));
  };
  check("dtype", spec.dtype.has_value());
  check("qscheme", spec.qscheme.has_value());
  check("reduce_range", spec.reduce_range.has_value());
  check("quant_min", spec.quant_min.has_value());
  check("quant_max", spec.quant_max.has_value());
  check("eps", spec.eps.has_value());
  check("averaging_constant", spec.averaging_constant.has_value());
  check("ch_axis", spec.ch_axis.has_value());
  check("is_dynamic", spec.is_dynamic.has_value());
  check("group_size", spec.group_size.has_value());
  check("bins", spec.bins.has_value());
  check("percentile", spec.percentile.has_value());
  check("scale", spec.scale.has_value());
  check("zero_point", spec.zero_point.has_value());
}

void check_scheme(const ObserverClass& known, const ObserverSpec& spec, const ResolvedObserver& resolved) {
  if (is_per_channel(resolved.qscheme) != known.per_channel)
    fail(
        spec, fmt::format("cannot have the qscheme '{}'", qscheme_name(resolved.qscheme)),
        known.per_channel ? "use a per_channel scheme" : "use 'per_tensor_affine' or 'per_tensor_symmetric'");
  // HistogramObserver alone has no such check in PyTorch.
  if (known.name != observer_classes::kHistogram && is_symmetric(resolved.qscheme) && resolved.reduce_range &&
      resolved.dtype == ScalarType::QUInt8)
    fail(spec, "cannot reduce the range of a symmetric scheme of quint8",
         "leave out reduce_range or use qint8");
}

void check_uniform_dtype(const ObserverSpec& spec, ScalarType dtype) {
  if (std::ranges::find(kUniformDTypes, dtype) != kUniformDTypes.end()) return;
  std::vector<std::string_view> names;
  for (const ScalarType allowed : kUniformDTypes) names.push_back(dtype_name(allowed));
  fail(spec, fmt::format("cannot have the dtype '{}'", dtype_name(dtype)), "allowed: " + quoted_list(names));
}

void check_range(const ObserverSpec& spec, Range given, ScalarType dtype) {
  if (given.min > given.max || given.min == given.max)
    fail(spec, fmt::format("quant_min {} is not below quant_max {}", given.min, given.max));
  if (given.min > 0 || given.max < 0)
    fail(spec, fmt::format("the range [{}, {}] does not include 0", given.min, given.max));
  const Range allowed = range_of(dtype);
  if (given.min < allowed.min || given.max > allowed.max)
    fail(spec,
         fmt::format("the range [{}, {}] is wider than {} holds", given.min, given.max, dtype_name(dtype)),
         fmt::format("stay within [{}, {}]", allowed.min, allowed.max));
}

/// calculate_qmin_qmax (M-07): a range given by both ends, else the dtype's own; reduce_range halves either.
Range effective_range(const ObserverSpec& spec, ScalarType dtype, bool reduce_range) {
  if (spec.quant_min && spec.quant_max) {
    const Range given{*spec.quant_min, *spec.quant_max};
    check_range(spec, given, dtype);
    return reduce_range ? Range{halved(given.min), halved(given.max)} : given;
  }
  const Range whole = range_of(dtype);
  const bool eight_bits = whole.max - whole.min == 255;
  return reduce_range && eight_bits ? Range{halved(whole.min), halved(whole.max)} : whole;
}

void resolve_range(const ObserverClass& known, const ObserverSpec& spec, ResolvedObserver& resolved) {
  resolved.has_custom_range = spec.quant_min.has_value() && spec.quant_max.has_value();
  switch (known.range) {
    case None:
      return;
    case AsGiven:
      if (resolved.has_custom_range && *spec.quant_min > *spec.quant_max)
        fail(spec, fmt::format("quant_min {} is above quant_max {}", *spec.quant_min, *spec.quant_max));
      resolved.quant_min = spec.quant_min;
      resolved.quant_max = spec.quant_max;
      resolved.eps = spec.eps.value_or(kFloat32Eps);
      return;
    case Fixed:
      resolved.quant_min = spec.quant_min.value_or(0);
      resolved.quant_max = spec.quant_max.value_or(255);
      if (*resolved.quant_min > *resolved.quant_max)
        fail(spec,
             fmt::format("quant_min {} is above quant_max {}", *resolved.quant_min, *resolved.quant_max));
      return;
    case Calculated:
      check_scheme(known, spec, resolved);
      check_uniform_dtype(spec, resolved.dtype);
      const Range range = effective_range(spec, resolved.dtype, resolved.reduce_range);
      resolved.quant_min = range.min;
      resolved.quant_max = range.max;
      resolved.eps = spec.eps.value_or(kFloat32Eps);
      return;
  }
}

/// FusedMovingAvgObsFakeQuantize has 0 to 255 for a range that is not given, whatever the dtype is.
ObserverSpec with_fake_quantize_defaults(ObserverSpec spec) {
  if (spec.fake_quantize == "FusedMovingAvgObsFakeQuantize") {
    if (!spec.quant_min) spec.quant_min = 0;
    if (!spec.quant_max) spec.quant_max = 255;
  }
  return spec;
}

void check_fake_quantize(const ObserverClass& known, const ObserverSpec& spec) {
  if (spec.fake_quantize.empty()) return;
  if (std::ranges::find(kFakeQuantizeClasses, spec.fake_quantize) == kFakeQuantizeClasses.end())
    throw Error(ErrorCode::BadConfig, fmt::format("'{}' is not a fake quantize class", spec.fake_quantize),
                suggestion(spec.fake_quantize, kFakeQuantizeClasses));
  const bool moving_average = known.name.starts_with("MovingAverage");
  if (spec.fake_quantize == "FusedMovingAvgObsFakeQuantize" && !moving_average)
    fail(spec, "FusedMovingAvgObsFakeQuantize works with a MovingAverage observer only",
         "use MovingAverageMinMaxObserver or FakeQuantize");
  if (spec.fake_quantize == "FixedQParamsFakeQuantize" && known.range != Fixed)
    fail(spec, "FixedQParamsFakeQuantize works with FixedQParamsObserver only");
  if (known.range == None) fail(spec, fmt::format("cannot be the observer of {}", spec.fake_quantize));
}

void check_dynamic(const ObserverClass& known, const ObserverSpec& spec, const ResolvedObserver& resolved) {
  if (!resolved.is_dynamic) return;
  if (!known.is_dynamic) fail(spec, "does not support is_dynamic", "use PlaceholderObserver");
  if (known.name == observer_classes::kMovingAverageMinMax && resolved.averaging_constant != 1)
    fail(spec, fmt::format("is_dynamic needs averaging_constant 1, got {}", resolved.averaging_constant));
}

}  // namespace

std::string_view qscheme_name(QScheme qscheme) {
  const auto found = std::ranges::find(kQSchemeNames, qscheme, &QSchemeName::qscheme);
  if (found != kQSchemeNames.end()) return found->name;
  throw Error(ErrorCode::Internal, "a qscheme without a name");
}

QScheme qscheme_from_name(std::string_view name) {
  constexpr std::string_view kPrefix = "torch.";
  const std::string_view bare = name.starts_with(kPrefix) ? name.substr(kPrefix.size()) : name;
  const auto found = std::ranges::find(kQSchemeNames, bare, &QSchemeName::name);
  if (found != kQSchemeNames.end()) return found->qscheme;
  std::vector<std::string_view> names;
  for (const QSchemeName& known : kQSchemeNames) names.push_back(known.name);
  throw Error(ErrorCode::BadConfig, fmt::format("'{}' is not a qscheme", name), suggestion(bare, names));
}

ResolvedObserver resolve(const ObserverSpec& given) {
  const ObserverClass& known = class_of(given);
  check_fake_quantize(known, given);
  check_arguments(known, given);
  const ObserverSpec spec = with_fake_quantize_defaults(given);

  ResolvedObserver resolved;
  resolved.observer = spec.observer;
  resolved.dtype = spec.dtype.value_or(known.dtype);
  resolved.qscheme = spec.qscheme.value_or(known.qscheme);
  resolved.reduce_range = spec.reduce_range.value_or(false);
  resolved.averaging_constant = spec.averaging_constant.value_or(resolved.averaging_constant);
  resolved.ch_axis = spec.ch_axis.value_or(resolved.ch_axis);
  resolved.is_dynamic = spec.is_dynamic.value_or(false);
  resolved.group_size = spec.group_size.value_or(resolved.group_size);
  resolved.bins = spec.bins.value_or(resolved.bins);
  resolved.percentile = spec.percentile.value_or(resolved.percentile);
  resolve_range(known, spec, resolved);
  check_dynamic(known, spec, resolved);
  if (spec.group_size && *spec.group_size < 1)
    fail(spec, fmt::format("group_size is {}, it must be at least 1", *spec.group_size));
  if (resolved.bins < 1) fail(spec, fmt::format("bins is {}, it must be at least 1", resolved.bins));
  constexpr double kWhole = 100;
  if (!(resolved.percentile > kWhole / 2 && resolved.percentile <= kWhole))
    fail(spec, fmt::format("percentile is {}, it must be above 50 and at most 100", resolved.percentile));
  if (known.range == Fixed) {
    if (!spec.scale || !spec.zero_point) fail(spec, "needs 'scale' and 'zero_point'");
    resolved.scale = *spec.scale;
    resolved.zero_point = *spec.zero_point;
  }
  return resolved;
}

ObserverSpec read_observer_spec(const JsonValue& at) {
  at.expect_object("observer", kSpecKeys);
  ObserverSpec spec;
  if (at.has("fake_quantize")) spec.fake_quantize = at.at("fake_quantize").string();
  // FakeQuantize's own default; nothing else has one.
  if (!at.has("observer") && !spec.fake_quantize.empty()) {
    spec.observer = observer_classes::kMovingAverageMinMax;
  } else {
    spec.observer = at.at("observer").string();
  }
  if (at.has("dtype")) spec.dtype = read_dtype(at.at("dtype"));
  if (at.has("qscheme")) {
    const JsonValue qscheme = at.at("qscheme");
    spec.qscheme = with_path(qscheme, [&] { return qscheme_from_name(qscheme.string()); });
  }
  read_optional(at, "reduce_range", spec.reduce_range);
  read_optional(at, "quant_min", spec.quant_min);
  read_optional(at, "quant_max", spec.quant_max);
  read_optional(at, "eps", spec.eps);
  read_optional(at, "averaging_constant", spec.averaging_constant);
  read_optional(at, "ch_axis", spec.ch_axis);
  read_optional(at, "is_dynamic", spec.is_dynamic);
  read_optional(at, "group_size", spec.group_size);
  read_optional(at, "bins", spec.bins);
  read_optional(at, "percentile", spec.percentile);
  read_optional(at, "scale", spec.scale);
  read_optional(at, "zero_point", spec.zero_point);
  with_path(at, [&] { return resolve(spec); });
  return spec;
}

ObserverSpec ObserverSpec::from_dict(const nlohmann::json& dict) {
  return read_observer_spec(JsonValue(dict));
}

nlohmann::json ObserverSpec::to_dict() const {
  nlohmann::json dict = nlohmann::json::object();
  dict["observer"] = observer;
  if (!fake_quantize.empty()) dict["fake_quantize"] = fake_quantize;
  if (dtype) dict["dtype"] = dtype_name(*dtype);
  if (qscheme) dict["qscheme"] = qscheme_name(*qscheme);
  write_optional(dict, "reduce_range", reduce_range);
  write_optional(dict, "quant_min", quant_min);
  write_optional(dict, "quant_max", quant_max);
  write_optional(dict, "eps", eps);
  write_optional(dict, "averaging_constant", averaging_constant);
  write_optional(dict, "ch_axis", ch_axis);
  write_optional(dict, "is_dynamic", is_dynamic);
  write_optional(dict, "group_size", group_size);
  write_optional(dict, "bins", bins);
  write_optional(dict, "percentile", percentile);
  write_optional(dict, "scale", scale);
  write_optional(dict, "zero_point", zero_point);
  return dict;
}

}  // namespace tsq
