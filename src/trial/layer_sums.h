#pragma once

#include <ATen/core/Tensor.h>
#include <tsq/compare_layers.h>

#include <optional>
#include <utility>

#include "outputs/output_power.h"
#include "trial/channel_gains.h"
#include "trial/value_histogram.h"

/// What one operator of an int8 model adds up over the samples, beside that of the float model.
namespace tsq::detail {

/// Sums over the values of an operator.
struct ErrorSums {
  double power{0};  ///< of what is wanted
  double error{0};  ///< of the difference

  [[nodiscard]] double sqnr_db() const { return detail::decibels(power, error); }
};

/// Values that are not finite do not count.
void add_difference(ErrorSums& sums, const at::Tensor& wanted, const at::Tensor& got);

/// Whether two tensors have the same numbers in other forms: kernels add a dimension, or take all but the
/// last for one.
[[nodiscard]] bool fits(const at::Tensor& a, const at::Tensor& b);

inline at::Tensor in_float(const at::Tensor& tensor) {
  return tensor.is_quantized() ? tensor.dequantize() : tensor;
}

/// The factors that channels of the values before a layer have in the int8 model, and which its weight takes
/// back.
struct InputFactors {
  at::Tensor of_channel{};  ///< undefined: none
  bool is_convolution{false};

  [[nodiscard]] at::Tensor applied_to(const at::Tensor& input) const;
};

/// Of one operator.
struct LayerSums {
  LayerComparison facts{};
  std::size_t float_place{0};  ///< of its float operator, within the segment
  ErrorSums whole{};
  ErrorSums alone{};
  ValueGains gains{};
  ValueGains gains_alone{};
  ValueGains input_gains{};  ///< of what it reads; of one with a weight
  InputFactors input_factors{};
  at::Tensor weight{};        ///< in float: [channels, …]; undefined: it has none
  at::Tensor exact_weight{};  ///< of its float operator, of the same sizes
  int64_t numbers{0};
  int64_t outside{0};
  at::Tensor used{};  ///< for each code whether it occurred
  double largest{0};
  double usual{0};
  ValueCounts values{};
  std::optional<std::pair<double, double>> reach{};  ///< of the codes
};

/// How much of the range of its codes a tensor uses, and how much of `wanted` lies outside of it.
void add_codes(LayerSums& sums, const at::Tensor& quantized, const at::Tensor& wanted);
/// The largest size, and the one that 99 of 100 values do not exceed.
void add_outliers(LayerSums& sums, const at::Tensor& wanted);

}  // namespace tsq::detail
