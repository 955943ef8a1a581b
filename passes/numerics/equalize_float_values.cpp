// Channels of unlike size where a float value becomes quantized, or vice versa: a multiplication
// beside the quantized layer fills the tensor's range, the layer's weights take it back.
//   sqrt → observer → conv   becomes   sqrt → mul(s) → observer → conv (columns / s)
//   conv → observer → norm   becomes   conv (rows · s) → observer → mul(1 / s) → norm
// A multiplication takes time: only where it saves much.

#include <ATen/ATen.h>

#include <algorithm>

#include "backends/choices/offers.h"
#include "ir/analysis.h"
#include "match/channel_scaling.h"
#include "operators/layer_work.h"
#include "passes/context/nodes.h"
#include "passes/numerics/channel_factors.h"
#include "passes/numerics/channel_scales.h"
#include "passes/numerics/passes.h"

namespace tsq::passes {
namespace {

/// Of the error that is expected without the multiplication; a larger share is not worth it: beside a layer
/// that takes much longer, and beside one that takes as long as the multiplication.
constexpr double kWorthALittle = 0.5;
constexpr double kWorthALayer = 0.125;
/// Multiply-accumulates that a layer does with each value, from which on it takes much longer.
constexpr double kManyProducts = 64;
/// Rounding that is so small beside the channels' own variance, on the average, is nothing to save.
constexpr double kTolerableNoise = 2e-3;

/// The product after a convolution goes to operators that may read small channels as they read large ones: a
/// channel that hardly showed in the calibration data may be larger elsewhere.
constexpr double kLargestFactor = 16;

double worth(double products) { return products < kManyProducts ? kWorthALayer : kWorthALittle; }

/// What rounding adds to the channels, as a share of their variance, on the average.
double noise(const ir::ChannelStatistics& channels, double step, const at::Tensor& factors) {
  const at::Tensor variance = (channels.mean_square - channels.mean.square()).clamp_min(0);
  const at::Tensor share = (step * step / 12) / (factors.square() * variance);
  return share.masked_select(variance > 0).clamp_max(1).mean().item<double>();
}

/// The graph's input, or what an operator computes in float.
bool is_float(const Model& model, const Value* value) {
  const Node* node = value->node();
  if (node->kind() == c10::prim::Param) return node->owningBlock()->owningNode() == nullptr;
  if (ir::is_observer(node) || ir::is_opaque(model, node) || match::commutes_with_scaling(model, node))
    return false;
  const ir::NodeRecord* record = ir::record_of(model, node);
  return node->blocks().empty() && (record == nullptr || !record->observed);
}

Value* before_clamps(const Model& model, Value* value) {
  while (match::commutes_with_scaling(model, value->node())) value = ir::operands(value->node()).front();
  return value;
}

/// Whether its kernel multiplies bytes and returns float.
bool returns_float(const Model& model, const Node* node) {
  return ir::placement_of(model, node) == ir::Placement::Int8FloatOut;
}

/// An activation that the kernel of the layer in front does, rounding as well: a multiplication in between
/// would cost both.
bool is_bytes_already(const ChannelFactors& factors, const Node* activation) {
  const auto operands = ir::operands(activation);
  if (operands.empty() || !returns_float(factors.model, operands.front()->node())) return false;
  const auto offer =
      kernels::float_output_offer(factors.context.target, factors.model, operands.front()->node());
  return offer.may_be_taken() &&
         !kernels::pointwise_activation(*offer.row, factors.model, activation).empty();
}

Value* product(const ChannelFactors& factors, Node* before, Value* x, const at::Tensor& by,
               const char* suffix, const Node* layer) {
  return multiply_channels(factors.model, before, x, by.to(at::kFloat),
                           layer_path(factors.model, layer) + suffix, layer);
}

bool multiply_in_front(const ChannelFactors& factors, Node* node, const ir::Weighted& layer) {
  Node* observer = node->input(0)->node();
  // With a fold the layer is to read what is before its padding.
  if (!layer.seen.input.mean.defined() ||
      layer.weight.size(1) * layer.groups != layer.seen.input.mean.numel() || layer.fold)
    return false;
  if (!ir::is_observer(observer) || observer->output()->uses().size() != 1 ||
      !is_float(factors.model, before_clamps(factors.model, observer->input(0))) ||
      is_bytes_already(factors, observer->input(0)->node()))
    return false;
  const auto range = observed_range(factors.model, observer);
  if (!range) return false;
  const at::Tensor found = best_factors(layer, room(layer.seen.input, *range, factors.margin), range->step,
                                        worth(operators::products_per_input(layer)));
  if (!found.defined()) return false;
  observer->replaceInput(0, product(factors, observer, observer->input(0), found, "_input_factors", node));
  scale_module(factors.model, node, {.input = found});
  report_equalization(factors, node, "equalized by a multiplication before it");
  return true;
}

bool multiply_after(const ChannelFactors& factors, Node* node, const ir::Weighted& layer) {
  // An addend would have to have the factors as well.
  if (node->inputs().size() != 1) return false;
  if (!layer.seen.output.mean.defined() || layer.seen.output.mean.numel() != layer.weight.size(0))
    return false;
  Node* observer = match::observer_after(factors.model, node);
  const bool is_rounded_for_float = observer != nullptr && match::is_read_in_float(factors.model, observer) &&
                                    !returns_float(factors.model, node);
  const auto range = is_rounded_for_float ? observed_range(factors.model, observer) : std::nullopt;
  if (!range) return false;
  const at::Tensor found = room(layer.seen.output, *range, factors.margin).clamp_max(kLargestFactor);
  const double before = noise(layer.seen.output, range->step, at::ones_like(found));
  const double after = noise(layer.seen.output, range->step, found);
  if (before < kTolerableNoise || after > worth(operators::products_per_output(layer)) * before) return false;
  Value* exact =
      product(factors, observer->next(), observer->output(), at::reciprocal(found), "_output_factors", node);
  observer->output()->replaceAllUsesAfterNodeWith(exact->node(), exact);
  scale_module(factors.model, node, {.output = found});
  report_equalization(factors, node, "equalized by a multiplication after it");
  return true;
}

bool equalize_beside_float(const ChannelFactors& factors, Node* node) {
  const ir::Weighted* layer = equalizable_layer(factors, node);
  if (layer == nullptr) return false;
  const bool in_front = multiply_in_front(factors, node, *layer);
  const bool after = multiply_after(factors, node, *layer);
  return in_front || after;
}

}  // namespace

bool equalize_float_values(Model& model, const PassContext& context) {
  const auto factors = channel_factors(model, context);
  return factors && change_nodes(model, [&](Node* node) { return equalize_beside_float(*factors, node); });
}

}  // namespace tsq::passes
