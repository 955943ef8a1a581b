#include "observers/uniform_qparams.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <tsq/error.h>

#include <limits>

#include "config/qscheme.h"

namespace tsq {
namespace {

bool is_unsigned_byte(c10::ScalarType dtype) {
  return dtype == c10::ScalarType::QUInt8 || dtype == c10::ScalarType::Byte;
}

/// check_min_max_valid: false when nothing was seen (M-05); throws for a minimum above the maximum (M-06).
bool is_range(const at::Tensor& min_val, const at::Tensor& max_val) {
  if (min_val.numel() == 0 || max_val.numel() == 0) {
    return false;
  }
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  if ((min_val.dim() == 0 || max_val.dim() == 0) && min_val.item<float>() == kInfinity &&
      max_val.item<float>() == -kInfinity) {
    return false;
  }
  if (at::gt(min_val, max_val).any().item<bool>()) {
    throw Error(ErrorCode::BadModel, "an observer's minimum is greater than its maximum",
                "its state is damaged, prepare and calibrate the model again");
  }
  return true;
}

struct ScaleAndZeroPoint {
  at::Tensor scale;
  at::Tensor zero_point;
};

ScaleAndZeroPoint symmetric(const UniformConfig& config, const at::Tensor& min_val_neg,
                            at::Tensor max_val_pos) {
  max_val_pos = at::max(at::neg(min_val_neg), max_val_pos);
  const double half_range = static_cast<double>(config.quant_max - config.quant_min) / 2;
  const at::Tensor scale = at::max(at::div(max_val_pos, half_range), config.eps);
  return {scale, at::full(min_val_neg.sizes(), symmetric_zero_point(config), at::kLong)};
}

ScaleAndZeroPoint affine(const UniformConfig& config, const at::Tensor& min_val_neg,
                         const at::Tensor& max_val_pos) {
  const double range = static_cast<double>(config.quant_max - config.quant_min);
  const at::Tensor scale = at::max(at::div(at::sub(max_val_pos, min_val_neg), range), config.eps);
  const at::Tensor rounded = at::round(at::div(min_val_neg, scale)).to(at::kInt);
  const at::Tensor zero_point = at::rsub(rounded, config.quant_min);
  return {scale, at::clamp(zero_point, config.quant_min, config.quant_max).to(at::kLong)};
}

ScaleAndZeroPoint float_qparams(const UniformConfig& config, const at::Tensor& min_val,
                                const at::Tensor& max_val) {
  at::Tensor scale =
      at::div(at::sub(max_val, min_val), static_cast<double>(config.quant_max - config.quant_min));
  scale = at::where(at::gt(scale, config.eps), scale, at::ones_like(scale));
  return {scale, at::div(at::mul(min_val, -1), scale)};
}

ScaleAndZeroPoint scale_and_zero_point(const UniformConfig& config, const at::Tensor& min_val,
                                       const at::Tensor& max_val) {
  if (!is_range(min_val, max_val)) {
    return {at::ones({1}), at::zeros({1}, at::kLong)};
  }
  if (config.qscheme == c10::QScheme::PER_CHANNEL_AFFINE_FLOAT_QPARAMS) {
    return float_qparams(config, min_val, max_val);
  }
  const at::Tensor min_val_neg = at::min(min_val, at::zeros_like(min_val));
  const at::Tensor max_val_pos = at::max(max_val, at::zeros_like(max_val));
  return is_symmetric(config.qscheme) ? symmetric(config, min_val_neg, max_val_pos)
                                      : affine(config, min_val_neg, max_val_pos);
}

at::Tensor at_least_one_dimension(const at::Tensor& tensor) {
  return tensor.dim() == 0 ? tensor.reshape({1}) : tensor;
}

}  // namespace

int64_t symmetric_zero_point(const UniformConfig& config) {
  if (is_unsigned_byte(config.dtype)) {
    // Python's floor division.
    return config.has_customized_qrange ? (config.quant_min + config.quant_max) >> 1 : 128;
  }
  return config.dtype == c10::ScalarType::UInt16 ? 32768 : 0;
}

UniformConfig uniform_config(const ResolvedObserver& config) {
  if (!config.quant_min.has_value() || !config.quant_max.has_value() || !config.eps.has_value()) {
    throw Error(ErrorCode::BadConfig, fmt::format("{} needs quant_min, quant_max and eps", config.observer));
  }
  return {config.dtype,
          config.qscheme,
          config.reduce_range,
          *config.quant_min,
          *config.quant_max,
          config.has_custom_range,
          at::full({1}, *config.eps, at::kFloat),
          config.ch_axis};
}

UniformConfig uniform_config(const torch::jit::Module& observer) {
  return {static_cast<c10::ScalarType>(observer.attr("dtype").toInt()),
          static_cast<c10::QScheme>(observer.attr("qscheme").toInt()),
          observer.attr("reduce_range").toBool(),
          observer.attr("quant_min").toInt(),
          observer.attr("quant_max").toInt(),
          observer.attr("has_customized_qrange").toBool(),
          observer.attr("eps").toTensor(),
          observer.hasattr("ch_axis") ? observer.attr("ch_axis").toInt() : 0};
}

ObserverState uniform_state(const UniformConfig& config, const ObserverState& more) {
  ObserverState state{{"dtype", static_cast<int64_t>(config.dtype)},
                      {"qscheme", static_cast<int64_t>(config.qscheme)},
                      {"reduce_range", config.reduce_range},
                      {"quant_min", config.quant_min},
                      {"quant_max", config.quant_max},
                      {"has_customized_qrange", config.has_customized_qrange},
                      {"eps", config.eps}};
  state.insert(state.end(), more.begin(), more.end());
  return state;
}

QParams qparams_of_range(const UniformConfig& config, const at::Tensor& min_val, const at::Tensor& max_val) {
  const ScaleAndZeroPoint found = scale_and_zero_point(config, min_val, max_val);
  return {at_least_one_dimension(found.scale), at_least_one_dimension(found.zero_point), config.dtype,
          affine_form(config.qscheme), config.ch_axis};
}

at::Tensor finite_values(const at::Tensor& tensor) {
  const at::Tensor is_finite = at::isfinite(tensor);
  return is_finite.all().item<bool>() ? tensor : tensor.masked_select(is_finite);
}

at::Tensor minimum_of_nothing() {
  return at::scalar_tensor(std::numeric_limits<float>::infinity(), at::kFloat);
}
at::Tensor maximum_of_nothing() {
  return at::scalar_tensor(-std::numeric_limits<float>::infinity(), at::kFloat);
}

float scalar_state(const torch::jit::Module& observer, const char* name) {
  return observer.attr(name).toTensor().item<float>();
}

bool saw_range(const torch::jit::Module& observer) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  return !(scalar_state(observer, "min_val") == kInfinity && scalar_state(observer, "max_val") == -kInfinity);
}

}  // namespace tsq
