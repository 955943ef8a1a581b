#include <fmt/format.h>
#include <tsq/dtype_config.h>
#include <tsq/error.h>
#include <tsq/qconfig.h>

#include <algorithm>
#include <array>
#include <limits>
#include <string>

#include "base/text.h"
#include "config/names/observer_classes.h"
#include "config/observer_arguments.h"
#include "config/observer_constructor.h"
#include "config/qscheme.h"

namespace tsq {
namespace {

using c10::ScalarType;

constexpr double kFloat32Eps = std::numeric_limits<float>::epsilon();

using enum ObserverConstructor::Range;

constexpr std::string_view kLearnable = "_LearnableFakeQuantize";

/// The dtypes of UniformQuantizationObserverBase, and quint2x4 for embeddings.
constexpr std::array kUniformDTypes{ScalarType::QInt8,         ScalarType::QUInt8, ScalarType::QUInt4x2,
                                    ScalarType::QInt32,        ScalarType::Char,   ScalarType::Byte,
                                    ScalarType::Short,         ScalarType::Int,    ScalarType::Float8_e5m2,
                                    ScalarType::Float8_e4m3fn, ScalarType::UInt16, ScalarType::QUInt2x4};

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

void check_arguments(const ObserverConstructor& known, const ObserverSpec& spec) {
  visit_arguments(spec, [&](std::string_view argument, const auto& value) {
    const bool is_of_learning = spec.fake_quantize == kLearnable && argument == "use_grad_scaling";
    if (value && !is_of_learning && !has_word(known.arguments, argument))
      fail(spec, fmt::format("takes no argument '{}'", argument),
           known.arguments.empty() ? "it takes none" : fmt::format("it takes: {}", known.arguments));
  });
}

void check_scheme(const ObserverConstructor& known, const ObserverSpec& spec,
                  const ResolvedObserver& resolved) {
  const bool per_channel = is_per_channel(known.qscheme);
  if (!known.takes_any_scheme && is_per_channel(resolved.qscheme) != per_channel)
    fail(spec, fmt::format("cannot have the qscheme '{}'", qscheme_name(resolved.qscheme)),
         per_channel ? "use a per_channel scheme" : "use 'per_tensor_affine' or 'per_tensor_symmetric'");
  // HistogramObserver alone has no such check in PyTorch.
  if (known.name != observer_classes::kHistogram && is_symmetric(resolved.qscheme) && resolved.reduce_range &&
      resolved.dtype == ScalarType::QUInt8)
    fail(spec, "cannot reduce the range of a symmetric scheme of quint8",
         "leave out reduce_range or use qint8");
}

void check_uniform_dtype(const ObserverSpec& spec, ScalarType dtype) {
  if (std::ranges::find(kUniformDTypes, dtype) != kUniformDTypes.end()) return;
  fail(spec, fmt::format("cannot have the dtype '{}'", dtype_name(dtype)),
       "allowed: " + quoted_list(names_of(kUniformDTypes, dtype_name)));
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

void resolve_range(const ObserverConstructor& known, const ObserverSpec& spec, ResolvedObserver& resolved) {
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

/// These two have 0 to 255 for a range that is not given, whatever the dtype is.
ObserverSpec with_fake_quantize_defaults(ObserverSpec spec) {
  if (spec.fake_quantize == "FusedMovingAvgObsFakeQuantize" || spec.fake_quantize == kLearnable) {
    if (!spec.quant_min) spec.quant_min = 0;
    if (!spec.quant_max) spec.quant_max = 255;
  }
  return spec;
}

void check_fake_quantize(const ObserverConstructor& known, const ObserverSpec& spec) {
  if (spec.fake_quantize.empty()) return;
  if (observer_of_fake_quantize(spec.fake_quantize).empty())
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

void check_dynamic(const ObserverConstructor& known, const ObserverSpec& spec,
                   const ResolvedObserver& resolved) {
  if (!resolved.is_dynamic) return;
  if (!known.is_dynamic) fail(spec, "does not support is_dynamic", "use PlaceholderObserver");
  if (known.name == observer_classes::kMovingAverageMinMax && resolved.averaging_constant != 1)
    fail(spec, fmt::format("is_dynamic needs averaging_constant 1, got {}", resolved.averaging_constant));
}

}  // namespace

ResolvedObserver resolve(const ObserverSpec& given) {
  const ObserverConstructor known = observer_constructor(given.observer);
  check_fake_quantize(known, given);
  check_arguments(known, given);
  const ObserverSpec spec = with_fake_quantize_defaults(given);

  const ResolvedObserver defaults;
  ResolvedObserver resolved{
      .observer = spec.observer,
      .dtype = spec.dtype.value_or(known.dtype),
      .qscheme = spec.qscheme.value_or(known.qscheme),
      .reduce_range = spec.reduce_range.value_or(defaults.reduce_range),
      .has_custom_range = spec.quant_min.has_value() && spec.quant_max.has_value(),
      .averaging_constant = spec.averaging_constant.value_or(defaults.averaging_constant),
      .ch_axis = spec.ch_axis.value_or(defaults.ch_axis),
      .is_dynamic = spec.is_dynamic.value_or(defaults.is_dynamic),
      .group_size = spec.group_size.value_or(defaults.group_size),
      .bins = spec.bins.value_or(defaults.bins),
      .percentile = spec.percentile.value_or(defaults.percentile)};
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

}  // namespace tsq
