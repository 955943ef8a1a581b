#include "benchmarks/kernels/cost_cells.h"

#include <array>
#include <limits>

#include "benchmarks/kernels/cost_measurements.h"

namespace tsq::benchmarks {
namespace {

using Costs = kernels::EngineCosts;

/// What kernels accept or which one they are: a wrong number is a wrong result.
constexpr double kExact = 1;
/// fbgemm has such kernels for multiples of eight channels alone: 97 and 104 are one cell.
constexpr double kOfEights = 104.0 / 97;
/// Sizes are tried in steps of about two, and where two kernels take nearly the same time, either may win. A
/// time that is wrong by less than a factor of two loses no more than the shorter of the two times that it
/// decides between, and the comments of the table name ranges as wide as that over sizes.
constexpr double kOfTimes = 2;

const std::array kCells{
    Cell{"fbgemm_depthwise_channels", "channels", &Costs::fbgemm_depthwise_channels, Unbounded::Never,
         "one more than the most channels, in steps of eight, up to which a depthwise 3x3 adds 255 * 127 "
         "exactly",
         measured::fbgemm_depthwise_channels, kOfEights},
    Cell{"needs_vnni", "yes or no", &Costs::needs_vnni, Unbounded::No,
         "whether a linear layer's sums of 255 * 127 are not exact; only a processor without VNNI shows it",
         measured::needs_vnni, kExact},
    Cell{"slow_groups", "groups", &Costs::slow_groups, Unbounded::Never,
         "the fewest groups from which a depthwise 3x3 with dilation 2, at 28 x 28, takes twice as long as "
         "in float, or longer",
         measured::slow_groups, kOfTimes},
    Cell{"channels_of_slow_groups", "channels", &Costs::channels_of_slow_groups, Unbounded::No,
         "the most input channels of a group with which such a convolution of 128 groups takes twice as long "
         "as in float, or longer",
         measured::channels_of_slow_groups, kOfTimes},
    Cell{"largest_fast_depthwise_kernel", "taps", &Costs::largest_fast_depthwise_kernel, Unbounded::Any,
         "the most taps up to which a depthwise convolution of 128 channels at 28 x 28, padded by half, "
         "takes less than twice as long a tap as with 3 x 3",
         measured::largest_fast_depthwise_kernel, kExact},
    Cell{"largest_kernel_that_pads", "taps", &Costs::largest_kernel_that_pads, Unbounded::Any,
         "the most taps up to which a convolution of 32 channels over 256 values takes less than a "
         "tenth longer with padding of its own than with dequantize, pad and quantize before it",
         measured::largest_kernel_that_pads, kOfTimes},
    Cell{"products_to_grow", "products a byte", &Costs::products_to_grow, Unbounded::Never,
         "a 3x3 of stride 2 over an image of 112 x 112 that grows to 4x4: nanoseconds of dequantize, pad and "
         "quantize for "
         "each value, divided by what it takes longer for each product that is added",
         measured::products_to_grow, kOfTimes},
    Cell{"channels_to_grow", "channels", &Costs::channels_to_grow, Unbounded::Never,
         "the most input channels with which that convolution, of 24 output channels, takes no longer when "
         "it grows than when its input is padded",
         measured::channels_to_grow, kOfTimes},
    Cell{"largest_weight_at_points", "weights", &Costs::largest_weight_at_points, Unbounded::No,
         "the most weights up to which a float linear layer takes less time than a 1x1 convolution of one "
         "point in int8",
         measured::largest_weight_at_points, kOfTimes},
    Cell{"products_of_small_layer", "products", &Costs::products_of_small_layer, Unbounded::No,
         "nothing: how large a layer may stay float for accuracy is a choice", nullptr, kExact},
    Cell{"share_of_small_layers", "one in", &Costs::share_of_small_layers, Unbounded::No,
         "nothing: how much of a network may stay float is a choice", nullptr, kExact},
    Cell{"saved_by_prelu", "ns a value", &Costs::saved_by_prelu, Unbounded::No,
         "quantized::prelu of 64 slopes, or dequantize, prelu and quantize of 48, of which quantized::prelu "
         "is "
         "slow, less prelu and quantize: the mean of the two",
         measured::saved_by_prelu, kOfTimes},
    Cell{"saved_by_hardswish", "ns a value", &Costs::saved_by_hardswish, Unbounded::No,
         "quantized::hardswish, less what the convolution that computes it takes longer than without",
         measured::saved_by_hardswish, kOfTimes},
    Cell{
        "saved_by_silu", "ns a value", &Costs::saved_by_silu, Unbounded::No,
        "dequantize, silu and quantize, less what the convolution that computes it takes longer than without",
        measured::saved_by_silu, kOfTimes},
    Cell{"to_get_bytes", "ns a value", &Costs::to_get_bytes, Unbounded::No, "int_repr",
         measured::to_get_bytes, kOfTimes},
    Cell{"to_dequantize", "ns a value", &Costs::to_dequantize, Unbounded::No, "dequantize",
         measured::to_dequantize, kOfTimes},
    Cell{"of_a_call", "ns", &Costs::of_a_call, Unbounded::No,
         "onednn::qconv2d_pointwise, less quantized::conv2d, of 16 channels at one point",
         measured::of_a_call, kOfTimes},
    Cell{"slopes_of_vectors", "slopes", &Costs::slopes_of_vectors, Unbounded::No,
         "the fewest slopes whose multiples, up to 256, all take less than twice the least time that "
         "quantized::prelu takes for a value",
         measured::slopes_of_vectors, kExact},
    Cell{"copies_of_signal", "copies", &Costs::copies_of_signal, Unbounded::No,
         "the most copies of a value in 1,024 windows up to which unfold and an int8 linear layer take no "
         "longer than quantize, int_repr and onednn::qconv1d_pointwise: geometric mean over windows of 64, "
         "256 "
         "and 1,024 values, with 64 and 256 filters",
         measured::copies_of_signal, kOfTimes},
    Cell{"onednn_transposed_groups", "groups", &Costs::onednn_transposed_groups, Unbounded::No,
         "nothing: a constant in LibTorch's source (should_use_onednn_quant)", nullptr, kExact},
    Cell{"least_addend_scale", "ratio", &Costs::least_addend_scale, Unbounded::No,
         "the least power of two by which an addend's scale may differ from the sum's",
         measured::least_addend_scale, kExact},
    Cell{"addend_scale_limit", "ratio", &Costs::addend_scale_limit, Unbounded::No,
         "the least power of two above it by which it may not", measured::addend_scale_limit, kExact},
};

}  // namespace

std::span<const Cell> cost_cells() { return kCells; }

double number_in_table(const Cell& cell, const kernels::EngineCosts& costs) {
  const double number =
      std::visit([&](auto member) { return static_cast<double>(costs.*member); }, cell.member);
  const bool is_unbounded =
      (cell.unbounded == Unbounded::Never && number >= static_cast<double>(Costs::kNever)) ||
      (cell.unbounded == Unbounded::Any && number == static_cast<double>(Costs::kAny));
  return is_unbounded ? std::numeric_limits<double>::infinity() : number;
}

}  // namespace tsq::benchmarks
