// Grouped and padded convolutions.

#include <algorithm>

#include "benchmarks/kernels/cost_measurements.h"
#include "benchmarks/kernels/layers.h"
#include "benchmarks/kernels/sweeps.h"

namespace tsq::benchmarks::measured {
namespace {

constexpr double kMuchLonger = 2;
constexpr double kHardlyLonger = 1.1;  // two turns of the same call differ by as much

Convolution dilated(int64_t groups, int64_t channels_of_group) {
  return {.channels_in = groups * channels_of_group,
          .channels_out = groups * channels_of_group,
          .kernel = 3,
          .size = 28,
          .padding = 2,
          .groups = groups,
          .dilation = 2};
}

bool takes_much_longer_than_float(const Place& place, const Convolution& convolution) {
  const auto times =
      nanoseconds_in_turns({int8_convolution(convolution), float_convolution(convolution)}, place.effort);
  return times[0] >= kMuchLonger * times[1];
}

double nanoseconds_of_a_tap(const Place& place, int64_t kernel) {
  constexpr int64_t kChannels = 128;
  const Convolution depthwise{.channels_in = kChannels,
                              .channels_out = kChannels,
                              .kernel = kernel,
                              .size = 28,
                              .padding = kernel / 2,
                              .groups = kChannels};
  return nanoseconds_in_turns({int8_convolution(depthwise)}, place.effort).front() /
         static_cast<double>(kernel * kernel);
}

/// A 3x3 convolution of stride 2 whose input is padded on one side of each dimension, as TensorFlow's
/// networks pad.
struct PaddedImage {
  Convolution plain;          ///< its input is padded by an operator
  Convolution after_padding;  ///< the same, of what that operator returns
  Convolution grown;          ///< pads itself on both sides, with a row and a column of zeros in its weight
};
constexpr int64_t kBefore = 0;
constexpr int64_t kAfter = 1;

PaddedImage padded_image(int64_t channels_in, int64_t channels_out) {
  const Convolution plain{
      .channels_in = channels_in, .channels_out = channels_out, .kernel = 3, .size = 112, .stride = 2};
  PaddedImage image{plain, plain, plain};
  image.after_padding.size += kBefore + kAfter;
  image.grown.kernel = 4;
  image.grown.padding = 1;
  return image;
}

/// For each value of the input.
double products_to_add(const PaddedImage& image) {
  const int64_t taps = image.grown.kernel * image.grown.kernel - image.plain.kernel * image.plain.kernel;
  return static_cast<double>(image.plain.channels_out * taps) /
         static_cast<double>(image.plain.stride * image.plain.stride);
}

}  // namespace

Number slow_groups(const Place& place) {
  const Sizes groups{2, 4, 8, 16, 32, 64, 100, 101, 128, 256};
  return first_from_which(
      groups, [&](int64_t size) { return takes_much_longer_than_float(place, dilated(size, 1)); });
}

Number channels_of_slow_groups(const Place& place) {
  constexpr int64_t kGroups = 128;
  if (kGroups < place.costs.slow_groups) return std::nullopt;
  return last_up_to_which(powers_of_two(1, 32), [&](int64_t channels) {
    return takes_much_longer_than_float(place, dilated(kGroups, channels));
  });
}

Number largest_fast_depthwise_kernel(const Place& place) {
  const double least = nanoseconds_of_a_tap(place, 3);
  return last_up_to_which({3, 5, 7, 9, 11, 13}, [&](int64_t kernel) {
    return nanoseconds_of_a_tap(place, kernel) < kMuchLonger * least;
  });
}

Number largest_kernel_that_pads(const Place& place) {
  return last_up_to_which({3, 5, 7, 9, 11, 15, 19, 23, 31, 47, 63}, [&](int64_t kernel) {
    const Convolution plain{.channels_in = 32, .channels_out = 32, .kernel = kernel, .size = 256, .dims = 1};
    Convolution padded = plain;
    padded.padding = kernel / 2;
    const auto times = nanoseconds_in_turns(
        {int8_convolution(padded), padded_int8_convolution(plain, kernel / 2, kernel / 2)}, place.effort);
    return times[0] <= kHardlyLonger * times[1];
  });
}

Number products_to_grow(const Place& place) {
  if (place.costs.channels_to_grow == 0) return std::nullopt;  // no kernel grows
  const int64_t channels = std::clamp<int64_t>(place.costs.channels_to_grow, 1, 3);
  const PaddedImage image = padded_image(channels, 32);
  const auto times =
      nanoseconds_in_turns({int8_convolution(image.after_padding), int8_convolution(image.grown),
                            padded_int8_convolution(image.plain, kBefore, kAfter)},
                           place.effort);
  const double of_padding = times[2] - times[0];
  const double of_growing = times[1] - times[0];
  return of_growing <= 0 ? kUnbounded : of_padding / of_growing * products_to_add(image);
}

Number channels_to_grow(const Place& place) {
  constexpr int64_t kOutputs = 24;  // which add 42 products for each value of the input
  return last_at_which({1, 2, 3, 4, 8, 16, 32, 64, 128}, [&](int64_t channels) {
    const PaddedImage image = padded_image(channels, kOutputs);
    const auto times = nanoseconds_in_turns(
        {int8_convolution(image.grown), padded_int8_convolution(image.plain, kBefore, kAfter)}, place.effort);
    return times[0] <= times[1];
  });
}

}  // namespace tsq::benchmarks::measured
