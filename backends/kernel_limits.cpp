#include "backends/kernel_limits.h"

#include <algorithm>
#include <array>
#include <limits>

namespace tsq::lowering {
namespace {

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

struct EngineLimits {
  std::string_view engine;
  /// Depthwise convolutions of two and three dimensions with this many channels go to fbgemm's own kernels.
  int64_t fbgemm_depthwise_channels;
  bool needs_vnni;  ///< to add more than two products exactly
  int64_t largest_fast_depthwise_kernel;
  int64_t largest_kernel_that_pads;
};

constexpr std::array kLimits{
    // onednn takes convolutions of up to 100 groups. What a padded zero's code adds, it works out tap by tap.
    EngineLimits{"x86", 101, true, 7, 15},
    EngineLimits{"fbgemm", 1, true, 7, 0},
    EngineLimits{"onednn", kNever, true, 0, 15},
    EngineLimits{"qnnpack", kNever, false, 5, 0},
};

const EngineLimits* limits_of(std::string_view engine) {
  const auto* const found = std::ranges::find(kLimits, engine, &EngineLimits::engine);
  return found == kLimits.end() ? nullptr : found;
}

}  // namespace

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

int64_t largest_kernel_that_pads(std::string_view engine) {
  const EngineLimits* limits = limits_of(engine);
  return limits == nullptr ? 0 : limits->largest_kernel_that_pads;
}

}  // namespace tsq::lowering
