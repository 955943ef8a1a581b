#include "backends/kernels/fault_conditions.h"

#include <ATen/ATen.h>
#include <ATen/WrapDimUtils.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "backends/kernels/costs.h"
#include "backends/kernels/first_row.h"
#include "config/qscheme.h"
#include "ir/analysis.h"
#include "ir/constants.h"
#include "operators/arguments.h"
#include "operators/images/convolution_padding.h"
#include "operators/weighted.h"

namespace tsq::kernels {

namespace {

bool all_equal(const std::vector<int64_t>& values, int64_t value) {
  return std::ranges::count(values, value) == std::ssize(values);
}

/// Where a transposed convolution is oneDNN's; the engine x86 takes it by
/// onednn_utils::should_use_onednn_quant, and fbgemm's otherwise.
bool takes_onednn(const KernelUse& use) {
  if (use.target.engine != "x86") return use.target.engine == "onednn";
  const ir::Weighted& weighted = *use.weighted;
  const at::Tensor& zero_point = weighted.weight_qparams->zero_point;
  return has_vnni(use.target) && zero_point.eq(0).all().item<bool>() &&
         all_equal(weighted.output_padding, 0) &&
         weighted.groups <= costs_of(use.target).onednn_transposed_groups;
}

bool channels_differ(const ir::Weighted& weighted) {
  return weighted.weight.size(0) != weighted.weight.size(1) * weighted.groups;
}

bool takes_direct_path(const ir::Weighted& weighted) {
  const bool in_eights = weighted.weight.size(0) % 8 == 0 && weighted.weight.size(1) % 8 == 0;
  return weighted.stride.size() == 2 && weighted.groups == 1 && weighted.weight.size(2) == 2 && in_eights &&
         all_equal(weighted.dilation, 1) && all_equal(weighted.padding, 0);
}

bool reads(const KernelUse& use, c10::ScalarType dtype) { return use.input && use.input->dtype() == dtype; }

bool has_operands_of_other_dtypes(const KernelUse& use) {
  const auto dtype = use.input ? use.input->dtype() : std::nullopt;
  return dtype && std::ranges::any_of(ir::operands(use.op), [&](const ir::Value* value) {
           const auto operand = bytes_read(use.model, value);
           const auto other = operand ? operand->dtype() : std::nullopt;
           return other && *other != *dtype;
         });
}

/// Of the weight, which a transposed convolution holds as [inputs, outputs / groups, …].
bool has_scales_of_other_dimension(const KernelUse& use) {
  const QParams* qparams =
      use.weighted != nullptr && use.weighted->weight_qparams ? &*use.weighted->weight_qparams : nullptr;
  if (qparams == nullptr || !is_per_channel(qparams->qscheme)) return false;
  const int64_t of_outputs = use.kernel.find("transpose") == std::string_view::npos ? 0 : 1;
  return at::maybe_wrap_dim(qparams->axis, use.weighted->weight.dim()) != of_outputs;
}

bool averages_over_other_count(const KernelUse& use) {
  const auto number = [&](const char* name) { return operators::argument_constant(use.model, use.op, name); };
  const auto ceil_mode = number("ceil_mode");
  if (ceil_mode && ceil_mode->toBool()) return false;  // that one is not qnnpack's
  const auto divisor = number("divisor_override");
  if (divisor && !divisor->isNone()) return true;
  const auto counts = number("count_include_pad");
  if (!counts || counts->toBool()) return false;
  const auto padding = number("padding");
  if (!padding) return true;
  if (padding->isInt()) return padding->toInt() != 0;
  return !padding->isIntList() || !all_equal(padding->toIntVector(), 0);
}

bool has_one_bound(const KernelUse& use) {
  const auto is_none = [&](const char* name) {
    const auto bound = operators::argument_constant(use.model, use.op, name);
    return bound && bound->isNone();
  };
  return is_none("min") || is_none("max");
}

bool is_not_over_channels(const KernelUse& use) {
  const auto dim = operators::argument_constant(use.model, use.op, "dim");
  return !use.input || use.input->rank() != 4 || !dim || !dim->isInt() || dim->toInt() != 1;
}

/// The operators that torch.nn.functional.interpolate calls, in traced and frozen files.
bool is_resampling(const ir::Node* node) {
  const std::string_view kind = node->kind().toUnqualString();
  return kind.starts_with("upsample_") || kind.starts_with("_upsample_");
}

bool has_no_interpolation(const KernelUse& use) {
  if (is_resampling(use.op)) {
    constexpr std::array<std::string_view, 5> kWithKernel{"upsample_nearest2d", "upsample_nearest3d",
                                                          "_upsample_nearest_exact2d",
                                                          "_upsample_nearest_exact3d", "upsample_bilinear2d"};
    const std::string_view kind = use.op->kind().toUnqualString();
    return std::ranges::find(kWithKernel, kind) == kWithKernel.end();
  }
  const auto mode = operators::argument_constant(use.model, use.op, "mode");
  if (!mode || !mode->isString()) return false;
  const std::string& name = mode->toStringRef();
  if (name == "area") return false;
  const auto rank = use.input ? use.input->rank() : std::nullopt;
  if (name == "nearest" || name == "nearest-exact") return rank == 3;
  return name != "bilinear";
}

/// What QNNPACK's pytorch_qnnp_create_add_nc_q8 refuses.
bool addend_scale_is_out_of_range(const KernelUse& use) {
  const EngineCosts& costs = costs_of(use.target);
  const auto returned = bytes_returned(use.model, use.op);
  const auto sum = returned ? returned->scale() : std::nullopt;
  if (!sum) return false;
  return std::ranges::any_of(ir::operands(use.op), [&](const ir::Value* addend) {
    const auto operand = bytes_read(use.model, addend);
    const auto scale = operand ? operand->scale() : std::nullopt;
    return scale && (*scale / *sum < costs.least_addend_scale || *scale / *sum >= costs.addend_scale_limit);
  });
}

bool holds(FaultCondition condition, const KernelUse& use) {
  switch (condition) {
    case FaultCondition::Always:
      return true;
    case FaultCondition::TransposedChannelsDiffer:
      return use.target.faults.onednn_transposed_channels && channels_differ(*use.weighted) &&
             takes_onednn(use);
    case FaultCondition::TransposedDirectPath:
      return use.target.faults.fbgemm_transposed_rows && takes_direct_path(*use.weighted) &&
             !takes_onednn(use);
    case FaultCondition::TransposedPerChannelInGroups:
      return use.weighted->groups > 1 && use.weighted->weight_qparams->scale.numel() > 1;
    case FaultCondition::ScalesOfOtherDimension:
      return has_scales_of_other_dimension(use);
    case FaultCondition::WithoutDimensions:
      return use.input && use.input->rank() == 0;
    case FaultCondition::SignedInput:
      return reads(use, c10::ScalarType::QInt8);
    case FaultCondition::Int32Input:
      return reads(use, c10::ScalarType::QInt32);
    case FaultCondition::OperandsOfOtherDTypes:
      return has_operands_of_other_dtypes(use);
    case FaultCondition::SignedInputWithoutXnnpack:
      return reads(use, c10::ScalarType::QInt8) && !at::globalContext().isXNNPACKAvailable();
    case FaultCondition::AverageOverOtherCount:
      return averages_over_other_count(use);
    case FaultCondition::OneBound:
      return has_one_bound(use);
    case FaultCondition::NotOverChannels:
      return is_not_over_channels(use);
    case FaultCondition::InterpolationWithoutKernel:
      return has_no_interpolation(use);
    case FaultCondition::AddendScaleOutOfRange:
      return addend_scale_is_out_of_range(use);
    case FaultCondition::MoreDimensions:
      return use.input && use.input->rank() != 2;
    case FaultCondition::BatchWasAdded:
      return use.input && use.input->batch_was_added();
  }
  return false;
}

}  // namespace

const KernelFault* fault_of(const KernelUse& use, Precaution precaution) {
  const auto kernel = use.kernel.substr(
      0, use.kernel.starts_with("quantized::") ? use.kernel.find('.') : std::string_view::npos);
  return first_row(kernel_faults(), [&](const KernelFault& fault) {
    return (fault.engine.empty() || fault.engine == use.target.engine) && fault.kernel == kernel &&
           fault.precaution == precaution && holds(fault.when, use);
  });
}

WeightedShape weighted_shape(const ir::Weighted& weighted, bool is_transposed) {
  const at::Tensor& weight = weighted.weight;
  return {.depthwise = weighted.groups > 1 && weight.size(1) == 1 && weighted.groups == weight.size(0),
          .dims = weight.dim() - 2,
          .channels = weight.size(0),
          .transposed = is_transposed};
}

}  // namespace tsq::kernels
