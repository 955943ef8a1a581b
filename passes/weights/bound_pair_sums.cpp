// Kernels that add two products of a byte by a byte in 16 bits saturate where 255 * (a + b) does not fit.
// Instead of one bit less for all activations, as FX's reduce_range has it, the scale of a channel's weights
// grows by what its largest pair needs: a proof for each channel that no input overflows.

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "backends/kernels/fault_conditions.h"
#include "backends/kernels/layer_kind.h"
#include "backends/kernels/packed.h"
#include "ir/analysis.h"
#include "ir/constants.h"
#include "ir/quantize_operators.h"
#include "operators/functional_weighted.h"
#include "operators/weighted.h"
#include "passes/weights/passes.h"

namespace tsq::passes {
namespace {

constexpr double kMost = 32767;
constexpr double kLargestCode = 255;
/// The largest sum of two codes that 255 times fits into 16 bits.
constexpr double kLargestSum = 128;
constexpr int kAttempts = 8;

/// A layer whose kernel sums products of bytes, or a function with its weight.
struct SummedLayer {
  bool is_transposed{};
  ir::Weighted weighted{};
};

SummedLayer summed_layer(std::string_view module, ir::Weighted weighted) {
  return {.is_transposed = operators::is_transposed({SymbolKind::Module, module}),
          .weighted = std::move(weighted)};
}

/// The codes of the weight as [outputs, what an output is a sum of].
at::Tensor codes_by_output(const SummedLayer& layer) {
  const at::Tensor codes = kernels::quantized_weight(layer.weighted).int_repr().to(at::kDouble);
  if (!layer.is_transposed) return codes.flatten(1);
  const int64_t groups = layer.weighted.groups;  // [inputs, outputs / groups, …]
  return codes.reshape({groups, codes.size(0) / groups, codes.size(1), -1})
      .transpose(1, 2)
      .flatten(0, 1)
      .flatten(1);
}

/// Of each output channel, the largest sum of two codes of one sign that a kernel may add. Depthwise kernels
/// add neighbouring taps; of others the order is theirs, and any two weights may meet.
at::Tensor largest_pair_sums(const SummedLayer& layer, bool of_neighbours) {
  const at::Tensor rows = codes_by_output(layer);
  const auto sums = [&](const at::Tensor& of_one_sign) {
    if (of_neighbours) {
      const at::Tensor even = at::constant_pad_nd(of_one_sign, {0, of_one_sign.size(1) % 2});
      return even.reshape({even.size(0), -1, 2}).sum(2).amax(1);
    }
    const int64_t count = std::min<int64_t>(2, of_one_sign.size(1));
    return std::get<0>(of_one_sign.topk(count, 1)).sum(1);
  };
  return at::maximum(sums(rows.clamp_min(0)), sums((-rows).clamp_min(0)));
}

/// The largest of the outputs that have a scale in common: all, or, of a transposed convolution, one of each
/// group.
at::Tensor largest_of_scales(const at::Tensor& of_outputs, int64_t scales) {
  return of_outputs.reshape({-1, scales}).amax(0);
}

/// How many channels' scales grew.
int64_t widen_scales(SummedLayer& layer, bool of_neighbours) {
  at::Tensor& scale = layer.weighted.weight_qparams->scale;
  const at::Tensor before = scale;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const at::Tensor sums = largest_of_scales(largest_pair_sums(layer, of_neighbours), scale.numel());
    if (sums.max().item<double>() <= kLargestSum) break;
    const at::Tensor factor = (sums / kLargestSum).clamp_min(1.0).reshape(scale.sizes());
    scale = (scale.to(at::kDouble) * factor).to(scale.scalar_type());
  }
  return scale.ne(before).sum().item<int64_t>();
}

/// Whether the kernel of a layer with these weights adds pairs in 16 bits.
bool sums_pairs(const kernels::Target& target, const ir::Weighted& weighted) {
  return weighted.weight_qparams && weighted.weight_qparams->dtype == c10::ScalarType::QInt8 &&
         weighted.weight.numel() > 0 &&
         kernels::sums_pairs_in_16_bits(target, kernels::weighted_shape(weighted));
}

/// Whether it adds neighbouring taps alone.
bool sums_neighbours(const kernels::Target& target, const SummedLayer& layer) {
  return kernels::has_vnni(target) && !layer.is_transposed &&
         kernels::weighted_shape(layer.weighted).depthwise;
}

/// The channels whose scales grew.
struct Widened {
  int64_t channels{};
  int64_t all_channels{};
};

/// Codes around zero, with one scale or one for each output.
bool has_symmetric_outputs(const SummedLayer& layer) {
  const QParams& qparams = *layer.weighted.weight_qparams;
  if (layer.weighted.group_size != 0 || qparams.zero_point.any().item<bool>()) return false;
  if (qparams.qscheme == c10::QScheme::PER_TENSOR_AFFINE) return true;
  return qparams.qscheme == c10::QScheme::PER_CHANNEL_AFFINE && qparams.axis == (layer.is_transposed ? 1 : 0);
}

Widened widen(const kernels::Target& target, SummedLayer& layer) {
  if (!sums_pairs(target, layer.weighted) || !has_symmetric_outputs(layer)) return {};
  return {.channels = widen_scales(layer, sums_neighbours(target, layer)),
          .all_channels = layer.weighted.weight_qparams->scale.numel()};
}

/// F.linear or F.conv* of a reference graph.
std::optional<SummedLayer> layer_of_function(const ir::Model& model, const ir::Node* node) {
  const auto kind = kernels::layer_kind(model, node);
  if (!kind || node->inputs().size() < 2) return std::nullopt;
  std::optional<ir::Weighted> weighted = operators::functional_parameters(model, node);
  return weighted ? std::optional(summed_layer(kind->op, *std::move(weighted))) : std::nullopt;
}

/// The weight of F.linear or F.conv*, whose scales are an attribute of the model, or a number.
Widened widen_weight_of_function(ir::Model& model, ir::Node* node, const kernels::Target& target) {
  std::optional<SummedLayer> layer = layer_of_function(model, node);
  if (!layer) return {};
  ir::Node* quantize = node->input(1)->node()->input(0)->node();
  const Widened widened = widen(target, *layer);
  if (widened.channels == 0) return widened;
  const at::Tensor& scale = layer->weighted.weight_qparams->scale;
  if (const std::string* name = ir::attribute_read(model, quantize->input(1))) {
    model.attributes.setattr(*name, scale);
  } else {
    const torch::jit::WithInsertPoint here(quantize);
    quantize->replaceInput(1, model.graph->insertConstant(scale.item<double>()));
  }
  return widened;
}

/// Where the range of what an operator reads was found: at the operator that made it, or at its own.
double largest_code_in_range(const ir::Model& model, const ir::Node* node) {
  const ir::Node* maker = node->input(0)->node();
  while (!maker->inputs().empty() && (maker->kind() == ir::kDequantize || maker->kind() == ir::kQuantize))
    maker = maker->input(0)->node();
  const QConfig* qconfig = ir::observed_qconfig(model, maker);
  if (qconfig == nullptr) qconfig = ir::observed_qconfig(model, node);
  if (qconfig == nullptr) return kLargestCode;
  return static_cast<double>(
      resolve(qconfig->activation).quant_max.value_or(static_cast<int64_t>(kLargestCode)));
}

std::string overflow_text(double pair, double in_range) {
  if (pair * kLargestCode <= kMost) return "the 16-bit sums of its kernel cannot overflow";
  const std::string outside = fmt::format(
      "two of its weights add up to {} times the scale, and {} * 255 is more than 32767", pair, pair);
  if (pair * in_range <= kMost)
    return fmt::format(
        "the 16-bit sums of its kernel can overflow for values outside of the calibrated range alone: {}",
        outside);
  return fmt::format("the 16-bit sums of its kernel can overflow: {}", outside);
}

}  // namespace

bool bound_pair_sums(ir::Model& model, const PassContext& context) {
  std::unordered_map<const ir::ModuleCall*, Widened> of_layers;
  for (ir::ModuleCall& call : model.calls) {
    ir::Weighted* weighted = ir::weighted_of(call);
    if (weighted == nullptr) continue;
    SummedLayer layer = summed_layer(ir::root_of(call).type.name, *weighted);
    of_layers.emplace(&call, widen(context.target, layer));
    weighted->weight_qparams = layer.weighted.weight_qparams;
  }
  bool has_widened = false;
  for (ir::Node* node : ir::nodes_in_order(*model.graph)) {
    Widened widened;
    if (!ir::is_module_call(node)) {
      widened = widen_weight_of_function(model, node, context.target);
    } else if (const auto found = of_layers.find(&ir::call_of(model, node)); found != of_layers.end()) {
      widened = found->second;
    }
    if (widened.channels == 0) continue;
    has_widened = true;
    if (Decision* decision = ir::decision_of(model, node))
      decision->notes.push_back(
          fmt::format("the weights of {} of {} channels have larger scales, so that no 16-bit sum of its "
                      "kernel overflows",
                      widened.channels, widened.all_channels));
  }
  return has_widened;
}

bool report_pair_sums(ir::Model& model, const PassContext& context) {
  bool has_reported = false;
  for (const ir::Node* node : ir::nodes_in_order(*model.graph)) {
    Decision* decision = ir::decision_of(model, node);
    if (decision == nullptr || !decision->quantized || node->inputs().empty()) continue;
    std::optional<SummedLayer> layer;
    if (!ir::is_module_call(node)) {
      layer = layer_of_function(model, node);
    } else {
      const ir::ModuleCall& call = ir::call_of(model, node);
      if (const ir::Weighted* held = ir::weighted_of(call))
        layer = summed_layer(ir::root_of(call).type.name, *held);
    }
    if (!layer || !sums_pairs(context.target, layer->weighted)) continue;
    const at::Tensor pairs = largest_pair_sums(*layer, sums_neighbours(context.target, *layer));
    const auto pair = pairs.max().item<double>();
    decision->saturation = overflow_text(pair, largest_code_in_range(model, node));
    decision->may_saturate = pair * kLargestCode > kMost;
    has_reported = true;
  }
  return has_reported;
}

}  // namespace tsq::passes
