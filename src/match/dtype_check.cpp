#include "match/dtype_check.h"

#include <fmt/format.h>

#include <algorithm>

#include "config/names/observer_classes.h"

namespace tsq::match {
namespace {

using c10::ScalarType;

std::optional<std::string> refused_range(const ResolvedObserver& observer,
                                         const DTypeWithConstraints& allowed) {
  if (!allowed.quant_min_lower_bound || !allowed.quant_max_upper_bound) return std::nullopt;
  if (!observer.quant_min || !observer.quant_max)
    return "the observer has no quant_min and quant_max, which the backend requires";
  if (*observer.quant_min >= *allowed.quant_min_lower_bound &&
      *observer.quant_max <= *allowed.quant_max_upper_bound)
    return std::nullopt;
  return fmt::format("quantization range [{}, {}] is outside the backend's [{}, {}]", *observer.quant_min,
                     *observer.quant_max, *allowed.quant_min_lower_bound, *allowed.quant_max_upper_bound);
}

std::optional<std::string> refused_scale(const ResolvedObserver& observer,
                                         const DTypeWithConstraints& allowed) {
  if (!allowed.scale_min_lower_bound) return std::nullopt;
  if (!observer.eps) return "the observer has no eps, and the backend requires a smallest scale";
  if (*observer.eps >= *allowed.scale_min_lower_bound) return std::nullopt;
  return fmt::format("eps {} is below the backend's smallest scale {}", *observer.eps,
                     *allowed.scale_min_lower_bound);
}

/// PyTorch lets its float16 test QConfigs through (D-14).
bool is_float16_test_qconfig(const QConfig& config) {
  return config == qconfig("float16_static_qconfig") || config == qconfig("float16_dynamic_qconfig");
}

std::optional<std::string> refused_fixed_qparams(const QConfig& qconfig, const ResolvedObserver& observer,
                                                 const DTypeWithConstraints& allowed) {
  if (!allowed.scale_exact_match || !allowed.zero_point_exact_match || is_float16_test_qconfig(qconfig))
    return std::nullopt;
  if (observer.observer != observer_classes::kFixedQParams) {
    return fmt::format("{} where the backend requires a FixedQParamsObserver with scale {} and zero point {}",
                       observer.observer, *allowed.scale_exact_match, *allowed.zero_point_exact_match);
  }
  if (observer.scale == *allowed.scale_exact_match && observer.zero_point == *allowed.zero_point_exact_match)
    return std::nullopt;
  return fmt::format("fixed scale {} and zero point {} are not the backend's {} and {}", observer.scale,
                     observer.zero_point, *allowed.scale_exact_match, *allowed.zero_point_exact_match);
}

}  // namespace

std::optional<std::string> refused_constraint(const std::optional<QConfig>& qconfig,
                                              const DTypeWithConstraints& constraints, bool is_activation) {
  if (!qconfig || !constraints.dtype) return std::nullopt;
  const ResolvedObserver observer = resolve(is_activation ? qconfig->activation : qconfig->weight);
  if (observer.dtype != *constraints.dtype) return std::nullopt;
  if (auto refusal = refused_range(observer, constraints)) return refusal;
  if (auto refusal = refused_scale(observer, constraints)) return refusal;
  return refused_fixed_qparams(*qconfig, observer, constraints);
}

bool dtypes_supported(const QConfig& qconfig, const std::vector<DTypeConfig>& configs) {
  const ResolvedObserver activation = resolve(qconfig.activation);
  const ScalarType weight = resolve(qconfig.weight).dtype;
  const bool is_half = activation.dtype == ScalarType::Half && weight == ScalarType::Half;
  const ScalarType bias = is_half ? ScalarType::Half : ScalarType::Float;
  return std::ranges::any_of(configs, [&](const DTypeConfig& config) {
    const ScalarType output = config.output_dtype.dtype.value_or(ScalarType::Float);
    if (config.weight_dtype.dtype.value_or(ScalarType::Float) != weight ||
        config.input_dtype.dtype.value_or(ScalarType::Float) != activation.dtype)
      return false;
    if (config.is_dynamic.value_or(false)) return activation.is_dynamic && output == ScalarType::Float;
    return output == activation.dtype && config.bias_dtype.value_or(ScalarType::Float) == bias;
  });
}

bool is_weight_only(const QConfig& qconfig) {
  const ResolvedObserver activation = resolve(qconfig.activation);
  return activation.dtype == ScalarType::Float && !activation.is_dynamic;
}

bool is_static(const QConfig& qconfig) {
  const ResolvedObserver activation = resolve(qconfig.activation);
  return !activation.is_dynamic &&
         (activation.dtype == ScalarType::QUInt8 || activation.dtype == ScalarType::QInt8);
}

bool is_dynamic(const QConfig& qconfig) { return resolve(qconfig.activation).is_dynamic; }

bool weight_is_quantized(const QConfig& qconfig) {
  switch (resolve(qconfig.weight).dtype) {
    case ScalarType::QUInt8:
    case ScalarType::QInt8:
    case ScalarType::Half:
    case ScalarType::QUInt4x2:
    case ScalarType::QUInt2x4:
    case ScalarType::QInt32:
    case ScalarType::Byte:
    case ScalarType::Char:
    case ScalarType::Short:
    case ScalarType::Int:
      return true;
    default:
      return false;
  }
}

}  // namespace tsq::match
