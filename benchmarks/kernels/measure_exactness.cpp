// What kernels compute and accept: no times.

#include <ATen/ops/full.h>
#include <ATen/ops/quantize_per_tensor.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>

#include <cmath>

#include "benchmarks/kernels/cost_measurements.h"
#include "benchmarks/kernels/layers.h"
#include "benchmarks/kernels/sweeps.h"

namespace tsq::benchmarks::measured {
namespace {

constexpr int64_t kLargestInputCode = 255;
constexpr int64_t kLargestWeightCode = 127;

/// Whether the kernel returns the sum of all products where the whole kernel lies within the input. Pairs of
/// products that are added in 16 bits end at 32,767 of 64,770, far more than a rounding.
bool adds_exactly(const Convolution& convolution) {
  const at::Tensor sums = sums_of_equal_codes(convolution, kLargestInputCode, kLargestWeightCode);
  const double products = std::pow(convolution.kernel, convolution.dims) *
                          static_cast<double>(convolution.channels_in) /
                          static_cast<double>(convolution.groups);
  const double sum = products * static_cast<double>(kLargestInputCode * kLargestWeightCode);
  return std::abs(sums.max().item<double>() - sum) < 0.01 * sum;
}

bool accepts_addend_scale(int64_t exponent) {
  const auto zeros = [](double scale) {
    return at::quantize_per_tensor(at::zeros({8}), scale, /*zero_point=*/0, at::kQUInt8);
  };
  constexpr double kSumScale = 1;
  try {
    Operator("quantized::add")(
        {zeros(std::ldexp(kSumScale, static_cast<int>(exponent))), zeros(kSumScale), kSumScale, int64_t{0}});
  } catch (const c10::Error&) {
    return false;
  }
  return true;
}

/// The powers of two by which an addend's scale may differ from the sum's, as exponents: [first, end).
struct Exponents {
  int64_t first{0};
  int64_t end{0};
};

/// Empty where the engine sets no limits.
std::optional<Exponents> accepted_exponents() {
  constexpr int64_t kFarthest = 30;
  Exponents found;
  while (found.first > -kFarthest && accepts_addend_scale(found.first - 1)) --found.first;
  while (found.end < kFarthest && accepts_addend_scale(found.end)) ++found.end;
  if (found.first == -kFarthest && found.end == kFarthest) return std::nullopt;
  return found;
}

}  // namespace

Number fbgemm_depthwise_channels(const Place&) {
  const double exact = last_up_to_which({8, 16, 32, 64, 96, 104, 128, 256}, [](int64_t channels) {
    return adds_exactly({.channels_in = channels,
                         .channels_out = channels,
                         .kernel = 3,
                         .size = 8,
                         .padding = 1,
                         .groups = channels});
  });
  return exact + 1;
}

Number needs_vnni(const Place& place) {
  if (kernels::has_vnni({.engine = place.engine})) return std::nullopt;
  return adds_exactly({.channels_in = 64, .channels_out = 64, .kernel = 1, .size = 8}) ? 0 : 1;
}

Number least_addend_scale(const Place&) {
  const auto exponents = accepted_exponents();
  return exponents ? Number(std::ldexp(1, static_cast<int>(exponents->first))) : std::nullopt;
}

Number addend_scale_limit(const Place&) {
  const auto exponents = accepted_exponents();
  return exponents ? Number(std::ldexp(1, static_cast<int>(exponents->end))) : std::nullopt;
}

}  // namespace tsq::benchmarks::measured
