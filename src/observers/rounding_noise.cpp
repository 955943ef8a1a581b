#include "observers/rounding_noise.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "observers/histogram_ranges.h"
#include "observers/histogram_state.h"
#include "observers/observer_module.h"

namespace tsq {

bool counts_values(const torch::jit::Module& observer) {
  return observer.hasattr("histogram") && saw_data(observer);
}

std::optional<RoundingNoise> rounding_noise(const torch::jit::Module& observer, const QParams& qparams) {
  const bool is_signed = qparams.dtype == c10::ScalarType::QInt8;
  const bool is_byte = is_signed || qparams.dtype == c10::ScalarType::QUInt8;
  if (!counts_values(observer) || !is_byte) return std::nullopt;
  const double lowest = is_signed ? -128 : 0;
  const double highest = is_signed ? 127 : 255;
  const double step = qparams.scale.item<double>();
  const double zero_point = qparams.zero_point.item<double>();
  const HistogramView view = view_of(observer);
  const Bins bins = bins_of(view);
  const double within_bin = bins.width * bins.width / 12;
  RoundingNoise sum;
  double count = 0;
  for (std::size_t i = 0; i < bins.counts.size(); ++i) {
    const double value = view.min_val + (static_cast<double>(i) + 0.5) * bins.width;
    const double code = std::clamp(std::nearbyint(value / step) + zero_point, lowest, highest);
    const double error = value - (code - zero_point) * step;
    sum.squared_error += bins.counts[i] * (error * error + within_bin);
    sum.square += bins.counts[i] * value * value;
    count += bins.counts[i];
  }
  if (sum.square == 0) return std::nullopt;
  return RoundingNoise{.squared_error = sum.squared_error / count, .square = sum.square / count};
}

}  // namespace tsq
