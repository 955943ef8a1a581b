#include "backends/kernels/kernel_limits.h"

#include <algorithm>
#include <array>
#include <limits>

namespace tsq::kernels {
namespace {

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

struct EngineLimits {
  std::string_view engine;
  /// Depthwise convolutions of two and three dimensions with this many channels go to fbgemm's own kernels.
  int64_t fbgemm_depthwise_channels;
  bool needs_vnni;  ///< to add more than two products exactly
  int64_t largest_fast_depthwise_kernel;
  int64_t largest_kernel_that_pads;
  int64_t slow_groups;  ///< from this many groups on, those that fbgemm has no fast kernel for are slow
  /// A kernel that reads bytes may grow by this many multiply-accumulates for each of them, if it has no more
  /// channels than that: padding floats, with a dequantize and a quantize, takes as long.
  double products_to_grow;
  int64_t channels_to_grow;
  /// oneDNN's kernels take 10 to 20 microseconds to begin with, fbgemm's 4; reading more floats takes longer.
  int64_t largest_weight_at_points;
  /// Int8 kernels of linear layers that return float take 13 microseconds to begin with on x86 and fbgemm,
  /// those that return bytes 1 to 5 on the other two.
  int64_t share_of_small_layers;
};

constexpr std::array kLimits{
    // onednn takes convolutions of up to 100 groups. What a padded zero's code adds, it works out tap by tap.
    EngineLimits{"x86", 101, true, 7, 15, 101, 100, kNever, 1 << 15, 20},
    // fbgemm takes a third less time for 4 x 4 x 3 than for 3 x 3 x 3.
    EngineLimits{"fbgemm", 1, true, 7, 0, 8, 112, 3, 0, 20},
    EngineLimits{"onednn", kNever, true, 0, 15, kNever, 100, kNever, 1 << 15, 100},
    EngineLimits{"qnnpack", kNever, false, 5, 0, kNever, 0, 0, 0, 100},
};

const EngineLimits* limits_of(std::string_view engine) {
  const auto* const found = std::ranges::find(kLimits, engine, &EngineLimits::engine);
  return found == kLimits.end() ? nullptr : found;
}

bool all_are(std::span<const int64_t> sizes, int64_t size) {
  return std::ranges::all_of(sizes, [&](int64_t each) { return each == size; });
}

/// https://github.com/pytorch/FBGEMM, src/FbgemmConv.cc: takeDepthWiseFastPath and fbgemmOptimizedGConv.
bool has_fast_kernel(const GroupedConvolution& convolution) {
  const int64_t size = convolution.kernel.front();
  if (all_are(convolution.kernel, 1)) return true;
  const bool is_plain = convolution.dims == 2 && all_are(convolution.kernel, size) &&
                        all_are(convolution.padding, size / 2) && all_are(convolution.dilation, 1) &&
                        (all_are(convolution.stride, 1) || all_are(convolution.stride, 2));
  if (!is_plain) return false;
  constexpr std::array kDepthwiseSizes{3, 5, 7};
  constexpr std::array kChannels{2, 4, 8, 16};
  constexpr int64_t kVector = 8;
  if (convolution.channels_in == 1)
    return convolution.groups % kVector == 0 && convolution.channels_out <= 2 &&
           std::ranges::find(kDepthwiseSizes, size) != kDepthwiseSizes.end();
  return size == 3 && convolution.channels_in == convolution.channels_out &&
         std::ranges::find(kChannels, convolution.channels_in) != kChannels.end();
}

}  // namespace

bool is_slower_than_float(std::string_view engine, const GroupedConvolution& convolution) {
  constexpr int64_t kManyChannels = 8;
  const EngineLimits* limits = limits_of(engine);
  return limits != nullptr && convolution.dims <= 2 && convolution.groups >= limits->slow_groups &&
         convolution.channels_in <= kManyChannels && !has_fast_kernel(convolution);
}

bool is_slower_than_float(std::string_view activation_kernel, int64_t slopes) {
  // Nanoseconds a value on one thread of an AMD Zen 5, engines alike, in int8 and in float: ELU 10 to 20 and
  // 1.6 to 2; PReLU 3 to 8 and 0.3 to 0.8, but 0.5 and 0.4 where the slopes fill vectors.
  constexpr int64_t kSlopesOfVectors = 64;
  if (activation_kernel == "quantized::prelu") return slopes > 1 && slopes % kSlopesOfVectors != 0;
  return activation_kernel == "quantized::elu";
}

bool sums_pairs_in_16_bits(std::string_view engine, const WeightedShape& shape, bool has_vnni) {
  const EngineLimits* limits = limits_of(engine);
  if (limits == nullptr) return false;
  const bool is_fbgemms =
      shape.depthwise && shape.dims >= 2 && shape.channels >= limits->fbgemm_depthwise_channels;
  return is_fbgemms || (limits->needs_vnni && !has_vnni);
}

int64_t largest_fast_depthwise_kernel(std::string_view engine) {
  const EngineLimits* limits = limits_of(engine);
  return limits == nullptr ? 0 : limits->largest_fast_depthwise_kernel;
}

int64_t largest_weight_at_points(std::string_view engine) {
  const EngineLimits* limits = limits_of(engine);
  return limits == nullptr ? 0 : limits->largest_weight_at_points;
}

int64_t share_of_small_layers(std::string_view engine) {
  constexpr int64_t kOfOthers = 100;
  const EngineLimits* limits = limits_of(engine);
  return limits == nullptr ? kOfOthers : limits->share_of_small_layers;
}

int64_t largest_kernel_that_pads(std::string_view engine) {
  const EngineLimits* limits = limits_of(engine);
  return limits == nullptr ? 0 : limits->largest_kernel_that_pads;
}

bool grows_faster_than_padding(std::string_view engine, const GrowingKernel& kernel) {
  const EngineLimits* limits = limits_of(engine);
  if (limits == nullptr) return true;
  // Padding floats costs half as much where they are floats already.
  const double most = kernel.reads_bytes ? limits->products_to_grow : limits->products_to_grow / 2;
  return kernel.channels <= limits->channels_to_grow && kernel.products_to_add <= most;
}

}  // namespace tsq::kernels
