// Kernels that read bytes and return float, and the operators that they save. Only oneDNN has them for
// convolutions. Nanoseconds a value are those by which 409,600 values take longer than 6,400: without the
// call.

#include <ATen/ops/full.h>
#include <ATen/ops/prelu.h>
#include <ATen/ops/silu.h>

#include <algorithm>
#include <map>

#include "benchmarks/kernels/cost_measurements.h"
#include "benchmarks/kernels/layers.h"
#include "benchmarks/kernels/sweeps.h"

namespace tsq::benchmarks::measured {
namespace {

constexpr int64_t kShortSide = 10;
constexpr int64_t kLongSide = 80;

using ForImages = std::function<Call(const std::vector<int64_t>& sizes)>;

/// Of each of the calls.
std::vector<double> nanoseconds_a_value(const Place& place, int64_t channels,
                                        const std::vector<ForImages>& makers) {
  std::vector<Call> calls;
  for (const int64_t side : {kShortSide, kLongSide}) {
    for (const ForImages& make : makers) calls.push_back(make({1, channels, side, side}));
  }
  const auto times = nanoseconds_in_turns(calls, place.effort);
  const auto values = static_cast<double>(channels * (kLongSide * kLongSide - kShortSide * kShortSide));
  std::vector<double> found;
  for (std::size_t i = 0; i < makers.size(); ++i)
    found.push_back((times[makers.size() + i] - times[i]) / values);
  return found;
}

constexpr int64_t kChannels = 64;

Call prelu_between_roundings(const std::vector<int64_t>& sizes) {
  return
      [x = random_codes(sizes), weight = slopes_of(sizes)] { quantize(at::prelu(x.dequantize(), weight)); };
}

Call rounded_prelu(const std::vector<int64_t>& sizes) {
  return [x = random_float(sizes), weight = slopes_of(sizes)] { quantize(at::prelu(x, weight)); };
}

Call silu_between_roundings(const std::vector<int64_t>& sizes) {
  return [x = random_codes(sizes)] { quantize(at::silu(x.dequantize())); };
}

/// A 1x1 convolution with few input channels, so that the post-op is a large part of its time.
ForImages pointwise(const std::string& post_op) {
  return [post_op](const std::vector<int64_t>& sizes) {
    return pointwise_convolution({.channels_in = 16, .channels_out = sizes[1], .size = sizes[2]}, post_op,
                                 /*returns_bytes=*/true);
  };
}

/// What an activation takes by itself, less what it takes within the kernel of a convolution.
Number saved_within_kernel(const Place& place, const ForImages& by_itself, const std::string& post_op) {
  if (!has_pointwise_kernels(place)) return std::nullopt;
  const auto times =
      nanoseconds_a_value(place, kChannels, {by_itself, pointwise(post_op), pointwise("none")});
  return times[0] - (times[1] - times[2]);
}

}  // namespace

Number saved_by_prelu(const Place& place) {
  if (!has_pointwise_kernels(place)) return std::nullopt;
  constexpr int64_t kOthers = 48;  // slopes that do not fill vectors
  const auto fast = nanoseconds_a_value(place, kChannels, {int8_prelu, rounded_prelu});
  const auto slow = nanoseconds_a_value(place, kOthers, {prelu_between_roundings, rounded_prelu});
  return ((fast[0] - fast[1]) + (slow[0] - slow[1])) / 2;
}

Number saved_by_hardswish(const Place& place) {
  return saved_within_kernel(place, int8_hardswish, "hardswish");
}

Number saved_by_silu(const Place& place) {
  return saved_within_kernel(place, silu_between_roundings, "swish");
}

Number to_get_bytes(const Place& place) {
  if (!has_pointwise_kernels(place)) return std::nullopt;
  return nanoseconds_a_value(place, kChannels, {[](const std::vector<int64_t>& sizes) -> Call {
                               return [x = random_codes(sizes)] { x.int_repr(); };
                             }})
      .front();
}

Number to_dequantize(const Place& place) {
  if (!has_pointwise_kernels(place)) return std::nullopt;
  return nanoseconds_a_value(place, kChannels, {[](const std::vector<int64_t>& sizes) -> Call {
                               return [x = random_codes(sizes)] { x.dequantize(); };
                             }})
      .front();
}

Number of_a_call(const Place& place) {
  if (!has_pointwise_kernels(place)) return std::nullopt;
  const Convolution point{.channels_in = 16, .channels_out = 16};
  const auto times = nanoseconds_in_turns(
      {pointwise_convolution(point, "none", /*returns_bytes=*/false), int8_convolution(point)}, place.effort);
  return times[0] - times[1];
}

Number slopes_of_vectors(const Place& place) {
  constexpr int64_t kMost = 256;
  constexpr double kFast = 2;  // times the least
  constexpr int64_t kStep = 16;
  std::map<int64_t, double> times;
  for (int64_t number = kStep; number <= kMost; number += kStep)
    times[number] = nanoseconds_a_value(place, number, {int8_prelu}).front();
  const double least = std::ranges::min(times | std::views::values);
  for (int64_t first = kStep; first <= kMost; first += kStep) {
    bool are_all_fast = true;
    for (int64_t number = first; number <= kMost; number += first)
      are_all_fast = are_all_fast && times[number] < kFast * least;
    if (are_all_fast) return static_cast<double>(first);
  }
  return std::nullopt;
}

}  // namespace tsq::benchmarks::measured
