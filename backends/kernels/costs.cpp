#include "backends/kernels/costs.h"

#include <array>
#include <string_view>

#include "backends/kernels/first_row.h"

namespace tsq::kernels {
namespace {

struct Row {
  LoweringTarget runtime;
  std::string_view engine;
  EngineCosts costs;
};

constexpr EngineCosts kCommon{};

constexpr std::array kCosts{
    Row{LoweringTarget::Stock, "x86", {.fbgemm_depthwise_channels = 101, .needs_vnni = true}},
    Row{LoweringTarget::Stock, "fbgemm", {.fbgemm_depthwise_channels = 1, .needs_vnni = true}},
    Row{LoweringTarget::Stock, "onednn", {.needs_vnni = true}},
};

}  // namespace

const EngineCosts& costs_of(const Target& target) {
  const Row* found = first_row(
      kCosts, [&](const Row& row) { return row.runtime == target.runtime && row.engine == target.engine; });
  return found == nullptr ? kCommon : found->costs;
}

}  // namespace tsq::kernels
