// Kernels that add two products of a byte by a byte in 16 bits saturate where 255 * (a + b) does not fit.
// Instead of one bit less for all activations, as FX's reduce_range has it, the scale of a channel's weights
// grows by what its largest pair needs: a proof for each channel that no input overflows.

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "backends/kernels/fault_conditions.h"
#include "backends/kernels/packed.h"
#include "ir/analysis.h"
#include "ir/quantize_operators.h"
#include "operators/functional_weighted.h"
#include "passes/weights/passes.h"
#include "torchscript/modules/tied_table.h"

namespace tsq::passes {
namespace {

constexpr double kMost = 32767;
constexpr double kLargestCode = 255;
/// The largest sum of two codes that 255 times fits into 16 bits.
constexpr double kLargestSum = 128;
constexpr int kAttempts = 8;

/// Of each output channel, the largest sum of two codes of one sign that a kernel may add. Depthwise kernels
/// add neighbouring taps; of others the order is theirs, and any two weights may meet.
at::Tensor largest_pair_sums(const ir::Weighted& weighted, bool depthwise) {
  const at::Tensor rows = kernels::quantized_weight(weighted).int_repr().to(at::kDouble).flatten(1);
  const auto sums = [&](const at::Tensor& of_one_sign) {
    if (depthwise) {
      const at::Tensor even = at::constant_pad_nd(of_one_sign, {0, of_one_sign.size(1) % 2});
      return even.reshape({even.size(0), -1, 2}).sum(2).amax(1);
    }
    const int64_t count = std::min<int64_t>(2, of_one_sign.size(1));
    return std::get<0>(of_one_sign.topk(count, 1)).sum(1);
  };
  return at::maximum(sums(rows.clamp_min(0)), sums((-rows).clamp_min(0)));
}

/// How many channels' scales grew.
int64_t widen_scales(ir::Weighted& weighted, bool depthwise) {
  const at::Tensor before = weighted.weight_qparams->scale;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const at::Tensor sums = largest_pair_sums(weighted, depthwise);
    if (sums.max().item<double>() <= kLargestSum) break;
    const at::Tensor factor = (sums / kLargestSum).clamp_min(1.0);
    weighted.weight_qparams->scale = (weighted.weight_qparams->scale.to(at::kDouble) * factor)
                                         .to(weighted.weight_qparams->scale.scalar_type());
  }
  return weighted.weight_qparams->scale.ne(before).sum().item<int64_t>();
}

/// Whether the kernel of a layer with these weights adds pairs in 16 bits.
bool sums_pairs(const kernels::Target& target, const ir::Weighted& weighted) {
  return weighted.weight_qparams && weighted.weight_qparams->dtype == c10::ScalarType::QInt8 &&
         weighted.weight.numel() > 0 &&
         kernels::sums_pairs_in_16_bits(target, kernels::weighted_shape(weighted));
}

/// Whether it adds neighbouring taps alone.
bool sums_neighbours(const kernels::Target& target, const ir::Weighted& weighted) {
  return kernels::has_vnni(target) && kernels::weighted_shape(weighted).depthwise;
}

/// The channels whose scales grew.
struct Widened {
  int64_t channels{};
  int64_t all_channels{};
};

bool can_widen(const kernels::Target& target, const ir::Weighted& weighted) {
  return sums_pairs(target, weighted) && torchscript::are_symmetric_rows(*weighted.weight_qparams);
}

Widened widen(const kernels::Target& target, ir::Weighted& weighted) {
  return {.channels = widen_scales(weighted, sums_neighbours(target, weighted)),
          .all_channels = weighted.weight_qparams->scale.numel()};
}

/// The weight of F.linear or F.conv*, whose scales are an attribute of the model.
Widened widen_weight_of_function(ir::Model& model, const ir::Node* node, const kernels::Target& target) {
  if (node->inputs().size() < 2) return {};
  std::optional<ir::Weighted> weighted = operators::functional_parameters(model, node);
  if (!weighted || !can_widen(target, *weighted)) return {};
  const ir::Node* quantize = node->input(1)->node()->input(0)->node();
  const ir::Node* scale = quantize->input(1)->node();
  if (scale->kind() != c10::prim::GetAttr) return {};
  const Widened widened = widen(target, *weighted);
  model.attributes.setattr(scale->s(c10::attr::name), weighted->weight_qparams->scale);
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
    if (weighted != nullptr && can_widen(context.target, *weighted))
      of_layers.emplace(&call, widen(context.target, *weighted));
  }
  bool has_widened = false;
  for (const ir::Node* node : ir::nodes_in_order(*model.graph)) {
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
    if (decision == nullptr || !decision->quantized ||
        node->inputs().size() < (ir::is_module_call(node) ? 1 : 2))
      continue;
    std::optional<ir::Weighted> weighted;
    if (ir::is_module_call(node)) {
      if (const ir::Weighted* held = ir::weighted_of(ir::call_of(model, node))) weighted = *held;
    } else {
      weighted = operators::functional_parameters(model, node);
    }
    if (!weighted || !sums_pairs(context.target, *weighted)) continue;
    const at::Tensor pairs = largest_pair_sums(*weighted, sums_neighbours(context.target, *weighted));
    const auto pair = pairs.max().item<double>();
    decision->saturation = overflow_text(pair, largest_code_in_range(model, node));
    decision->may_saturate = pair * kLargestCode > kMost;
    has_reported = true;
  }
  return has_reported;
}

}  // namespace tsq::passes
