// Filter banks, as convolutions and as linear layers over windows.

#include <ATen/ops/randn.h>

#include <cmath>

#include "base/known_engines.h"
#include "benchmarks/kernels/cost_measurements.h"
#include "benchmarks/kernels/layers.h"
#include "benchmarks/kernels/sweeps.h"

namespace tsq::benchmarks::measured {
namespace {

/// The int8 kernel that takes the place of a float layer: with a known range where the engine has such a one.
Call int8_layer_with_float_output(const Place& place, const at::Tensor& x, int64_t out) {
  return runs_fbgemm(place.engine) ? static_linear(x, out) : dynamic_linear(x, out);
}

/// A signal cut into windows of `kernel` values that overlap, and a filter bank that slides over it. Long
/// ones: of a few windows, the start of the convolution is most of its time.
struct FilterBank {
  int64_t kernel;
  int64_t stride;
  int64_t filters;
  int64_t windows{1024};
};

Call layer_over_windows(const Place& place, const FilterBank& bank) {
  const at::Tensor signal = at::randn({bank.stride * (bank.windows - 1) + bank.kernel});
  const at::Tensor windows = signal.unfold(0, bank.kernel, bank.stride);
  const Call layer = int8_layer_with_float_output(place, windows.contiguous(), bank.filters);
  return [windows, layer] {
    windows.contiguous();
    layer();
  };
}

Call convolution_of_signal(const FilterBank& bank) {
  const Convolution convolution{.channels_out = bank.filters,
                                .kernel = bank.kernel,
                                .size = bank.stride * (bank.windows - 1) + bank.kernel,
                                .stride = bank.stride,
                                .dims = 1};
  const at::Tensor signal = at::randn({1, 1, convolution.size});
  const Call kernel = pointwise_convolution(convolution, "none", /*returns_bytes=*/false);
  return [signal, kernel] {
    quantize(signal).int_repr();
    kernel();
  };
}

}  // namespace

Number copies_of_signal(const Place& place) {
  if (!has_pointwise_kernels(place)) return std::nullopt;
  return last_up_to_which(powers_of_two(1, 64), [&](int64_t copies) {
    double log_ratio = 0;  // of short and long windows, few and many filters, all together
    for (const int64_t kernel : {64, 256, 1024}) {
      for (const int64_t filters : {64, 256}) {
        const FilterBank bank{.kernel = kernel, .stride = kernel / copies, .filters = filters};
        const auto times = nanoseconds_in_turns(
            {layer_over_windows(place, bank), convolution_of_signal(bank)}, place.effort);
        log_ratio += std::log(times[0] / times[1]);
      }
    }
    return log_ratio <= 0;
  });
}

}  // namespace tsq::benchmarks::measured
