#include <tsq/engines.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "backends/kernels/dynamic_kernels.h"
#include "backends/kernels/float_output_kernels.h"
#include "backends/kernels/kernel_faults.h"
#include "backends/kernels/lowering_table.h"
#include "base/entries.h"

namespace tsq {
namespace {

constexpr std::array<std::string_view, 1> kOnednn{"onednn"};
constexpr std::array<std::string_view, 2> kFbgemm{"x86", "fbgemm"};

/// A kernel and the engines that have it.
using KernelRow = std::pair<std::string_view, std::span<const std::string_view>>;
constexpr std::array kRows{
    KernelRow{"quantized::conv2d_add", kOnednn},
    KernelRow{"quantized::conv2d_add_relu", kOnednn},
    KernelRow{"quantized::linear_leaky_relu", kOnednn},
    KernelRow{"quantized::linear_tanh", kOnednn},
    KernelRow{"quantized::linear_with_input_q_dq_qweight_dq_output_fp32", kFbgemm},
    KernelRow{"quantized::linear_with_input_q_dq_qweight_dq_relu_output_fp32", kFbgemm},
    KernelRow{"quantized::linear_dynamic_fp16", kFbgemm},
    KernelRow{"quantized::linear_relu_dynamic_fp16", kFbgemm},
};

std::string_view without_overload(std::string_view kernel) { return kernel.substr(0, kernel.find('.')); }

}  // namespace

std::span<const std::string_view> engines_of(std::string_view kernel) {
  const KernelRow* found = find_entry(kRows, without_overload(kernel));
  return found == nullptr ? std::span<const std::string_view>{} : found->second;
}

std::string_view wrong_results_of(std::string_view engine, std::string_view op) {
  using enum kernels::FaultCondition;
  using enum kernels::Precaution;
  constexpr std::array kShapesAlone{
      Always,          TransposedChannelsDiffer, TransposedDirectPath, TransposedPerChannelInGroups,
      NotOverChannels, AverageOverOtherCount,    MoreDimensions};
  constexpr std::array kOfResults{KeepReference, ContiguousInput, PlainLayout, ShapedWhenEmpty, NotWhenEmpty};
  const auto bare = [](std::string_view name) { return name.substr(name.find_last_of(".:") + 1); };
  const auto found = std::ranges::find_if(kernels::kernel_faults(), [&](const kernels::KernelFault& fault) {
    const bool is_operator = fault.kernel.starts_with("torch.") && op.starts_with("aten::");
    return fault.engine == engine &&
           (fault.kernel == without_overload(op) || (is_operator && bare(fault.kernel) == bare(op))) &&
           std::ranges::find(kShapesAlone, fault.when) != kShapesAlone.end() &&
           std::ranges::find(kOfResults, fault.precaution) != kOfResults.end();
  });
  return found == kernels::kernel_faults().end() ? std::string_view() : found->reason;
}

std::vector<std::string> all_kernels() {
  std::set<std::string> names;
  const auto add = [&names](std::string_view kernel) {
    if (!kernel.empty()) names.emplace(without_overload(kernel));
  };
  for (const kernels::WeightedKernel& row : kernels::weighted_kernels()) add(row.kernel);
  for (const kernels::BinaryKernel& row : kernels::binary_kernels()) {
    add(row.kernel);
    add(row.relu_kernel);
  }
  for (const kernels::UnaryKernel& row : kernels::unary_kernels()) add(row.kernel);
  for (const kernels::DynamicKernel& row : kernels::dynamic_kernels()) add(row.kernel);
  for (const kernels::RecurrentKernel& row : kernels::recurrent_kernels()) add(row.kernel);
  for (const kernels::FloatOutputKernel& row : kernels::float_output_kernels()) add(row.kernel);
  return {names.begin(), names.end()};
}

}  // namespace tsq
