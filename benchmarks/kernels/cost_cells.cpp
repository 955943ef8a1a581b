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
    Cell{"fbgemm_depthwise_channels", "channels", &Costs::fbgemm_depthwise_channels, true,
         "one more than the most channels, in steps of eight, up to which a depthwise 3x3 adds 255 * 127 "
         "exactly",
         measured::fbgemm_depthwise_channels, kOfEights},
    Cell{"needs_vnni", "yes or no", &Costs::needs_vnni, false,
         "whether a linear layer's sums of 255 * 127 are not exact; only a processor without VNNI shows it",
         measured::needs_vnni, kExact},
    Cell{"copies_of_signal", "copies", &Costs::copies_of_signal, false,
         "the most copies of a value in 1,024 windows up to which unfold and an int8 linear layer take no "
         "longer than quantize, int_repr and onednn::qconv1d_pointwise: geometric mean over windows of 64, "
         "256 "
         "and 1,024 values, with 64 and 256 filters",
         measured::copies_of_signal, kOfTimes},
    Cell{"onednn_transposed_groups", "groups", &Costs::onednn_transposed_groups, false,
         "nothing: a constant in LibTorch's source (should_use_onednn_quant)", nullptr, kExact},
    Cell{"least_addend_scale", "ratio", &Costs::least_addend_scale, false,
         "the least power of two by which an addend's scale may differ from the sum's",
         measured::least_addend_scale, kExact},
    Cell{"addend_scale_limit", "ratio", &Costs::addend_scale_limit, false,
         "the least power of two above it by which it may not", measured::addend_scale_limit, kExact},
};

}  // namespace

std::span<const Cell> cost_cells() { return kCells; }

double number_in_table(const Cell& cell, const kernels::EngineCosts& costs) {
  const double number =
      std::visit([&](auto member) { return static_cast<double>(costs.*member); }, cell.member);
  const bool is_unbounded = cell.may_be_unbounded && number >= static_cast<double>(Costs::kNever);
  return is_unbounded ? std::numeric_limits<double>::infinity() : number;
}

}  // namespace tsq::benchmarks
