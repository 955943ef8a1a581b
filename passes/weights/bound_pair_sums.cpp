// That no 16-bit sum of a kernel overflows, and what the report says of it.

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "backends/kernels/fault_conditions.h"
#include "backends/kernels/layer_kind.h"
#include "ir/analysis.h"
#include "ir/constants.h"
#include "ir/quantize_operators.h"
#include "operators/functional_weighted.h"
#include "operators/weighted.h"
#include "passes/weights/pair_sums.h"
#include "passes/weights/passes.h"

namespace tsq::passes {
namespace {

constexpr double kMost = 32767;
constexpr double kLargestCode = 255;

/// Which pairs the kernel of a layer with these weights adds in 16 bits.
kernels::PairSums pairs_of(const kernels::Target& target, const ir::Weighted& weighted, bool is_transposed) {
  const bool has_codes = weighted.weight_qparams &&
                         weighted.weight_qparams->dtype == c10::ScalarType::QInt8 &&
                         weighted.weight.numel() > 0;
  return has_codes ? kernels::pair_sums(target, kernels::weighted_shape(weighted, is_transposed))
                   : kernels::PairSums::None;
}

/// The channels whose scales grew.
struct Widened {
  int64_t channels{};
  int64_t all_channels{};
};

/// `clips`: the weight of a function may have other readers.
Widened widen(const kernels::Target& target, ir::Weighted& weighted, bool is_transposed, bool clips) {
  const kernels::PairSums pairs = pairs_of(target, weighted, is_transposed);
  if (pairs == kernels::PairSums::None || !kernels::has_symmetric_codes(weighted, is_transposed ? 1 : 0))
    return {};
  if (clips) clip_to_codes(weighted);
  return {.channels = widen_scales(weighted, is_transposed, pairs, kernels::kLargestPairSum),
          .all_channels = weighted.weight_qparams->scale.numel()};
}

bool is_transposed(const ir::ModuleCall& call) { return operators::is_transposed(ir::root_of(call).type); }

/// What a node computes a layer with.
struct LayerOfNode {
  ir::Weighted weighted{};
  bool is_transposed{};
};

/// F.linear or F.conv* of a reference graph.
std::optional<LayerOfNode> layer_of_function(const ir::Model& model, const ir::Node* node) {
  const auto kind = kernels::layer_kind(model, node);
  if (!kind || node->inputs().size() < 2) return std::nullopt;
  std::optional<ir::Weighted> weighted = operators::functional_parameters(model, node);
  if (!weighted) return std::nullopt;
  return LayerOfNode{.weighted = *std::move(weighted),
                     .is_transposed = operators::is_transposed({SymbolKind::Module, kind->op})};
}

/// The weight of F.linear or F.conv*, whose scales are an attribute of the model, or a number.
Widened widen_weight_of_function(ir::Model& model, ir::Node* node, const kernels::Target& target) {
  std::optional<LayerOfNode> layer = layer_of_function(model, node);
  if (!layer) return {};
  ir::Node* quantize = node->input(1)->node()->input(0)->node();
  const Widened widened = widen(target, layer->weighted, layer->is_transposed, /*clips=*/false);
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

std::optional<LayerOfNode> layer_of_node(const ir::Model& model, const ir::Node* node) {
  if (!ir::is_module_call(node)) return layer_of_function(model, node);
  const ir::ModuleCall& call = ir::call_of(model, node);
  const ir::Weighted* weighted = ir::weighted_of(call);
  if (weighted == nullptr) return std::nullopt;
  return LayerOfNode{.weighted = *weighted, .is_transposed = is_transposed(call)};
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
    of_layers.emplace(&call, widen(context.target, *weighted, is_transposed(call), /*clips=*/true));
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
    tell_of_larger_scales(model, node, widened.channels, widened.all_channels);
  }
  return has_widened;
}

bool report_pair_sums(ir::Model& model, const PassContext& context) {
  bool has_reported = false;
  for (const ir::Node* node : ir::nodes_in_order(*model.graph)) {
    Decision* decision = ir::decision_of(model, node);
    if (decision == nullptr || !decision->quantized || node->inputs().empty()) continue;
    const std::optional<LayerOfNode> layer = layer_of_node(model, node);
    if (!layer) continue;
    const kernels::PairSums pairs = pairs_of(context.target, layer->weighted, layer->is_transposed);
    if (pairs == kernels::PairSums::None) continue;
    const at::Tensor sums = largest_pair_sums(layer->weighted, layer->is_transposed, pairs);
    const auto pair = sums.max().item<double>();
    decision->saturation = overflow_text(pair, largest_code_in_range(model, node));
    decision->may_saturate = pair * kLargestCode > kMost;
    has_reported = true;
  }
  return has_reported;
}

}  // namespace tsq::passes
