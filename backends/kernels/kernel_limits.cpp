#include "backends/kernels/kernel_limits.h"

#include <algorithm>
#include <array>

#include "backends/kernels/costs.h"

namespace tsq::kernels {
namespace {

bool all_are(std::span<const int64_t> sizes, int64_t size) {
  return std::ranges::count(sizes, size) == std::ssize(sizes);
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

bool is_slower_than_float(const Target& target, const GroupedConvolution& convolution) {
  const EngineCosts& costs = costs_of(target);
  return convolution.dims <= 2 && convolution.groups >= costs.slow_groups &&
         convolution.channels_in <= costs.channels_of_slow_groups && !has_fast_kernel(convolution);
}

bool is_slower_than_float(const Target& target, std::string_view activation_kernel, int64_t slopes) {
  if (activation_kernel == "quantized::prelu")
    return slopes > 1 && slopes % costs_of(target).slopes_of_vectors != 0;
  return activation_kernel == "quantized::elu";
}

bool sums_pairs_in_16_bits(const Target& target, const WeightedShape& shape) {
  // Programs compute layers in float that may saturate without VNNI.
  if (target.runtime == LoweringTarget::Fused) return !has_vnni(target);
  const EngineCosts& costs = costs_of(target);
  const bool is_fbgemms =
      shape.depthwise && shape.dims >= 2 && shape.channels >= costs.fbgemm_depthwise_channels;
  return is_fbgemms || (costs.needs_vnni && !has_vnni(target));
}

bool rounds_biases(const Target& target) { return target.engine == "qnnpack"; }

bool grows_faster_than_padding(const Target& target, const GrowingKernel& kernel) {
  const EngineCosts& costs = costs_of(target);
  // Padding floats costs half as much where they are floats already.
  const double most = kernel.reads_bytes ? costs.products_to_grow : costs.products_to_grow / 2;
  return kernel.channels <= costs.channels_to_grow && kernel.products_to_add <= most;
}

}  // namespace tsq::kernels
