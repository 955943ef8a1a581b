#include "backends/kernels/fault_conditions.h"

#include <ATen/ATen.h>
#include <ATen/WrapDimUtils.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "backends/kernels/costs.h"
#include "backends/kernels/first_row.h"
#include "backends/kernels/layer_kind.h"
#include "backends/kernels/packed.h"
#include "config/qscheme.h"
#include "ir/analysis.h"
#include "ir/constants.h"
#include "ir/quantize_operators.h"
#include "operators/arguments.h"
#include "operators/images/convolution_padding.h"
#include "operators/quantize_after.h"
#include "operators/traits.h"
#include "operators/weighted.h"

namespace tsq::kernels {

namespace {

using ir::kQuantize;

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

const c10::Symbol kDTypeAttribute = c10::Symbol::attr("tsq_dtype");

/// The dtype that the quantize node before the kernels returns; empty where there is none.
std::optional<c10::ScalarType> quantized_dtype(const ir::Value* quantized) {
  const ir::Node* node = quantized->node();
  while (node->kind() != kQuantize) {
    if (node->hasAttribute(kDTypeAttribute)) return static_cast<c10::ScalarType>(node->i(kDTypeAttribute));
    if (node->inputs().empty() || node->kind().is_prim()) return std::nullopt;
    node = node->input(0)->node();
  }
  return ir::dtype_constant(node->input(3));
}

bool reads(const KernelUse& use, c10::ScalarType dtype) {
  return use.input != nullptr && quantized_dtype(use.input) == dtype;
}

bool has_operands_of_other_dtypes(const KernelUse& use) {
  const auto dtype = use.input == nullptr ? std::nullopt : quantized_dtype(use.input);
  return dtype && std::ranges::any_of(ir::operands(use.op), [&](const ir::Value* operand) {
           const bool is_quantized = operand->node()->kind() == ir::kDequantize;
           const auto other = is_quantized ? quantized_dtype(operand->node()->input(0)) : std::nullopt;
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
  return known_rank(use.input) != 4 || !dim || !dim->isInt() || dim->toInt() != 1;
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
  const auto rank = known_rank(use.input);
  if (name == "nearest" || name == "nearest-exact") return rank == 3;
  return name != "bilinear";
}

/// The scale of a quantized tensor, where it is written in the graph.
std::optional<double> known_scale(const ir::Value* quantized) {
  const ir::Node* node = quantized->node();
  while (operators::keeps_qparams(operators::traits_of(node))) node = ir::operands(node).front()->node();
  const ir::Value* scale =
      node->kind() == kQuantize ? node->input(1) : operators::argument_named(node, "output_scale");
  if (scale == nullptr && node->kind().toQualString() == std::string_view("quantized::add"))
    scale = operators::argument_named(node, "scale");
  return scale == nullptr ? std::nullopt : ir::number_constant(scale);
}

/// What QNNPACK's pytorch_qnnp_create_add_nc_q8 refuses.
bool addend_scale_is_out_of_range(const KernelUse& use) {
  const EngineCosts& costs = costs_of(use.target);
  const ir::Node* quantize = operators::quantize_after(use.op);
  const auto sum = quantize == nullptr ? std::nullopt : known_scale(quantize->output());
  if (!sum) return false;
  return std::ranges::any_of(ir::operands(use.op), [&](const ir::Value* addend) {
    const bool is_quantized = addend->node()->kind() == ir::kDequantize;
    const auto scale = is_quantized ? known_scale(addend->node()->input(0)) : std::nullopt;
    return scale && (*scale / *sum < costs.least_addend_scale || *scale / *sum >= costs.addend_scale_limit);
  });
}

bool batch_was_added(const ir::Value* quantized) {
  const ir::Node* node = quantized->node();
  while (node->kind() != kQuantize && operators::is_elementwise(operators::traits_of(node)))
    node = ir::operands(node).front()->node();
  return node->kind() == c10::aten::unsqueeze || node->kind() == c10::aten::reshape;
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
      return use.input != nullptr && known_rank(use.input) == 0;
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
      return use.input != nullptr && known_rank(use.input) != 2;
    case FaultCondition::BatchWasAdded:
      return use.input != nullptr && batch_was_added(use.input);
  }
  return false;
}

bool is_interpolation(const ir::Node* node) {
  if (node->kind() != c10::prim::CallFunction) return false;
  const auto function = node->input(0)->type()->cast<c10::FunctionType>();
  return function && function->function()->qualname().name() == "interpolate";
}

/// The number of dimensions that an operator says of its result: flatten(x, 1), reshape(x, [a, b]).
std::optional<int64_t> written_rank(const ir::Node* node) {
  if (node->kind() == c10::aten::flatten) {
    const bool is_matrix =
        ir::whole_number_constant(node->input(1)) == 1 && ir::whole_number_constant(node->input(2)) == -1;
    return is_matrix ? std::optional<int64_t>(2) : std::nullopt;
  }
  if (node->kind() != c10::aten::reshape && node->kind() != c10::aten::view) return std::nullopt;
  const ir::Node* sizes = node->input(1)->node();
  if (sizes->kind() == c10::prim::ListConstruct) return std::ssize(sizes->inputs());
  const auto constant = ir::constant_value(node->input(1));
  return constant && constant->isIntList() ? std::optional<int64_t>(constant->toIntList().size())
                                           : std::nullopt;
}

/// What convert makes of an observer of a weight, but for the numbers: a zero point that is not 0 by its
/// scheme is taken for another.
QParams form_of_qparams(const ResolvedObserver& observer, const at::Tensor& weight) {
  const bool is_each_channel = is_per_channel(observer.qscheme);
  const int64_t axis = is_each_channel ? at::maybe_wrap_dim(observer.ch_axis, weight.dim()) : 0;
  const at::Tensor scale = at::ones({is_each_channel ? weight.size(axis) : 1});
  return {.scale = scale,
          .zero_point = is_symmetric(observer.qscheme) ? at::zeros_like(scale) : at::ones_like(scale),
          .dtype = observer.dtype,
          .qscheme = affine_form(observer.qscheme),
          .axis = axis};
}

bool is_mean_of_all(const ir::Node* node) {
  const c10::FunctionSchema* schema = node->kind() == c10::aten::mean ? node->maybeSchema() : nullptr;
  return schema != nullptr && !schema->argumentIndexWithName("dim");
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

const KernelFault* fault_of_layer(const Target& target, const ir::Model& model, const ir::Node* layer,
                                  const ResolvedObserver& observer) {
  const auto kind = layer_kind(model, layer);
  const WeightedKernel* row = kind ? weighted_kernel(kind->op, kind->post_op) : nullptr;
  const ir::Weighted* weighted =
      row != nullptr && ir::is_module_call(layer) ? ir::weighted_of(ir::call_of(model, layer)) : nullptr;
  if (weighted == nullptr) return nullptr;
  ir::Weighted rounded = *weighted;
  rounded.weight_qparams = form_of_qparams(observer, rounded.weight);
  return fault_of(
      {.target = target, .model = model, .op = layer, .kernel = row->kernel, .weighted = &rounded},
      Precaution::KeepReference);
}

WeightedShape weighted_shape(const ir::Weighted& weighted) {
  const at::Tensor& weight = weighted.weight;
  return {.depthwise = weighted.groups > 1 && weight.size(1) == 1 && weighted.groups == weight.size(0),
          .dims = weight.dim() - 2,
          .channels = weight.size(0)};
}

bool is_slower_than_float(const Target& target, const ir::ModuleCall& layer) {
  const ir::Weighted* weighted = ir::weighted_of(layer);
  const Symbol& type = ir::root_of(layer).type;
  if (weighted == nullptr || weighted->stride.empty() || operators::is_transposed(type)) return false;
  const std::vector<int64_t> padding =
      weighted->fold ? weighted->fold->padding : operators::kernel_padding(*weighted);
  const at::IntArrayRef kernel =
      weighted->fold ? at::IntArrayRef(weighted->fold->kernel) : weighted->weight.sizes().slice(2);
  return is_slower_than_float(target, {.dims = weighted->weight.dim() - 2,
                                       .groups = weighted->groups,
                                       .channels_in = weighted->weight.size(1),
                                       .channels_out = weighted->weight.size(0) / weighted->groups,
                                       .kernel = kernel,
                                       .stride = weighted->stride,
                                       .padding = padding,
                                       .dilation = weighted->dilation});
}

std::optional<int64_t> known_rank(const ir::Value* quantized) {
  const ir::Node* node = quantized->node();
  if (is_interpolation(node)) return known_rank(node->input(1));
  if (const auto rank = written_rank(node->kind() == kQuantize ? node->input(0)->node() : node)) return rank;
  if (is_mean_of_all(node) || (node->kind() == kQuantize && is_mean_of_all(node->input(0)->node()))) return 0;
  if (node->kind() == kQuantize || node->kind() == ir::kDequantize)
    return is_interpolation(node->input(0)->node()) || node->kind() != kQuantize ? known_rank(node->input(0))
                                                                                 : std::nullopt;
  const std::string_view kind = quantized->node()->kind().toQualString();
  if (kind.starts_with("quantized::add") || kind.starts_with("quantized::mul")) {
    const auto left = known_rank(node->input(0));
    const auto right = ir::holds_tensor(node->input(1)) ? known_rank(node->input(1)) : left;
    return left && right ? std::max(left, right) : std::nullopt;
  }
  if (kind.starts_with("quantized::linear")) return known_rank(node->input(0));
  if (kind.find("1d") != std::string_view::npos) return 3;
  if (kind.find("2d") != std::string_view::npos) return 4;
  if (kind.find("3d") != std::string_view::npos) return 5;
  return operators::keeps_rank(operators::traits_of(node)) ? known_rank(ir::operands(node).front())
                                                           : std::nullopt;
}

void note_dtype(ir::Node* kernel) {
  if (const auto dtype = quantized_dtype(kernel->output()))
    kernel->i_(kDTypeAttribute, static_cast<int64_t>(*dtype));
}

}  // namespace tsq::kernels
