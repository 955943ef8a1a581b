#include "backends/kernels/costs.h"

#include <array>
#include <string_view>

#include "backends/kernels/first_row.h"

namespace tsq::kernels {
namespace {

constexpr int64_t kNever = EngineCosts::kNever;
constexpr int64_t kAny = EngineCosts::kAny;

struct Row {
  LoweringTarget runtime;
  std::string_view engine;
  EngineCosts costs;
};

constexpr EngineCosts kCommon{};

constexpr std::array kCosts{
    // oneDNN takes convolutions of up to 100 groups. What a padded zero's code adds, it works out tap by tap.
    // Its kernels take 10 to 20 microseconds to start, fbgemm's 4.
    Row{LoweringTarget::Stock,
        "x86",
        {.fbgemm_depthwise_channels = 101,
         .needs_vnni = true,
         .slow_groups = 101,  // 1,024 channels of 150 values take 52 ms, and 0.2 by oneDNN
         .largest_fast_depthwise_kernel = 7,
         .largest_kernel_that_pads = 31,
         .products_to_grow = 80,
         .channels_to_grow = kNever,
         .largest_weight_at_points = 1 << 15,
         .share_of_small_layers = 20}},
    // fbgemm takes a third less time for 4 x 4 x 3 than for 3 x 3 x 3. With 32 channels and more, growing
    // takes less time than padding; with other numbers up to a fifth more.
    Row{LoweringTarget::Stock,
        "fbgemm",
        {.fbgemm_depthwise_channels = 1,
         .needs_vnni = true,
         .slow_groups = 2,
         .largest_fast_depthwise_kernel = 7,
         .largest_kernel_that_pads = kAny,
         .largest_weight_at_points = 1 << 12,
         .share_of_small_layers = 20}},
    // The int8 kernels of linear layers that return bytes take 1 to 5 microseconds to start on these two.
    Row{LoweringTarget::Stock,
        "onednn",
        {.fbgemm_depthwise_channels = kNever,
         .needs_vnni = true,
         .slow_groups = kNever,
         .largest_fast_depthwise_kernel = kAny,
         .largest_kernel_that_pads = 31,
         .products_to_grow = 80,
         .channels_to_grow = kNever,
         .largest_weight_at_points = 1 << 15,
         .share_of_small_layers = 100}},
    Row{LoweringTarget::Stock,
        "qnnpack",
        {.fbgemm_depthwise_channels = kNever,
         .needs_vnni = false,
         .slow_groups = kNever,
         .largest_fast_depthwise_kernel = 5,
         .largest_kernel_that_pads = kAny,
         .products_to_grow = 0,
         .channels_to_grow = 0,
         .largest_weight_at_points = 0,
         .share_of_small_layers = 100}},
};

}  // namespace

const EngineCosts& costs_of(const Target& target) {
  const Row* found = first_row(
      kCosts, [&](const Row& row) { return row.runtime == target.runtime && row.engine == target.engine; });
  return found == nullptr ? kCommon : found->costs;
}

}  // namespace tsq::kernels
