// A scale for each channel of what a depthwise layer reads: its channels do not mix, so that its weights undo
// factors exactly, whatever activation computes them. Factors come after the activation, where fused programs
// have the values in float before they are rounded.
//   conv → hardswish → observer → depthwise    becomes
//   conv → hardswish → mul(s) → observer of the scaled range → depthwise (columns / s)
// Zeros that are padded in between stay zeros.
// Ranges of channels come from fewer values than the range of the tensor, and are left more often: with a
// margin, and only where rounding costs less in values that the ranges were not found with.

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "ir/analysis.h"
#include "ir/edit.h"
#include "ir/observer_results.h"
#include "match/channel_scaling.h"
#include "operators/images/zero_padding.h"
#include "operators/traits.h"
#include "passes/context/nodes.h"
#include "passes/numerics/channel_factors.h"
#include "passes/numerics/channel_scales.h"
#include "passes/numerics/held_back_noise.h"
#include "passes/numerics/passes.h"

namespace tsq::passes {
namespace {

/// Of the noise without factors; a larger share (less than 1 dB) is not worth a further multiplication.
constexpr double kWorthwhile = 0.8;
/// From the tensor's range (0) to a range of its own for each channel (1).
constexpr double kShares[] = {0.25, 0.5, 0.75, 1.0};

/// Whether a program rounds a value where a layer or its activation computes it.
bool is_rounded_after_layer(const Model& model, const Value* value) {
  const Node* node = value->node();
  if (value->uses().size() != 1) return false;
  while (operators::is_elementwise(operators::traits_of(model, node)) && node->outputs().size() == 1 &&
         !ir::operands(node).empty()) {
    value = ir::operands(node).front();
    if (value->uses().size() != 1) return false;
    node = value->node();
  }
  return weighted_at(model, node) != nullptr;
}

/// What is padded with zeros, in the dimensions without channels; the value itself where nothing pads it.
Value* before_padding(const Model& model, Value* value, std::size_t dims) {
  while (value->uses().size() == 1 && operators::zero_padding(model, value->node(), dims))
    value = ir::operands(value->node()).front();
  return value;
}

/// What rounds the input of a layer, and what it is computed as: padding may lie before or after rounding.
struct RoundedValue {
  Node* observer{};
  Node* after_padding{};  ///< one of the same range; null: there is none
  Value* computed{};
};

std::optional<RoundedValue> rounded_value(const Model& model, const Node* layer, std::size_t dims) {
  const auto is_read_once = [](const Value* value) { return value->uses().size() == 1; };
  Node* last = layer->input(0)->node();
  if (!is_read_once(layer->input(0))) return std::nullopt;
  Value* value = before_padding(model, ir::is_observer(last) ? last->input(0) : layer->input(0), dims);
  Node* first = value->node();
  if (!ir::is_observer(first))
    return ir::is_observer(last) ? std::optional(RoundedValue{.observer = last, .computed = value})
                                 : std::nullopt;
  if (!is_read_once(value)) return std::nullopt;
  RoundedValue result{.observer = first, .computed = first->input(0)};
  if (!ir::is_observer(last)) return result;
  result.after_padding = last;
  return ir::observer_index(first) == ir::observer_index(last) ? std::optional(result) : std::nullopt;
}

/// A depthwise convolution whose input is rounded after an activation that the layer before it computes.
struct Depthwise {
  Node* layer{};
  RoundedValue input{};
  ObservedRange range{};
  QParams qparams{};
  int64_t lowest{};
  int64_t highest{};
};

std::optional<Depthwise> depthwise(const ChannelFactors& factors, Node* node) {
  const ir::Weighted* layer = equalizable_layer(factors, node);
  if (layer == nullptr || layer->groups < 2 || layer->weight.size(1) != 1 || layer->padding_mode != "zeros" ||
      !layer->padding_name.empty())
    return std::nullopt;
  const auto input = rounded_value(factors.model, node, layer->stride.size());
  if (!input || !is_rounded_after_layer(factors.model, input->computed) || !layer->seen.input.max.defined() ||
      layer->seen.input.max.numel() != layer->groups)
    return std::nullopt;
  const Node* observer = input->observer;
  const auto range = observed_range(factors.model, observer);
  if (!range) return std::nullopt;
  const ir::ObserverEntry& entry = ir::observer_of(factors.model, observer);
  const ResolvedObserver config = resolve(entry.spec);
  const ir::ObserverResult found = ir::result_of(entry);
  return Depthwise{.layer = node,
                   .input = *input,
                   .range = *range,
                   .qparams = *found.qparams,
                   .lowest = *config.quant_min,
                   .highest = *config.quant_max};
}

struct ChannelRanges {
  at::Tensor low{};
  at::Tensor high{};
};

/// `margin` times the extremes of each channel, within the range of the tensor.
ChannelRanges channel_ranges(const Depthwise& input, const at::Tensor& min, const at::Tensor& max,
                             double margin) {
  return {.low = (min.to(at::kDouble).clamp_max(0) * margin).clamp_min(input.range.lowest),
          .high = (max.to(at::kDouble).clamp_min(0) * margin).clamp_max(input.range.highest)};
}

/// The width of the tensor's range divided by that of each channel's, to some power.
at::Tensor factors_for(const Depthwise& input, const ChannelRanges& ranges, double share) {
  const at::Tensor part = (ranges.high - ranges.low) / (input.range.highest - input.range.lowest);
  // Nothing is known of a channel that was always zero.
  return part.masked_fill(part <= 0, 1.0).pow(-share);
}

/// The range that holds all channels when they are multiplied.
InputRounding rounding(const Depthwise& input, const ChannelRanges& ranges, const at::Tensor& factors) {
  const double lowest = std::min(0.0, (ranges.low * factors).min().item<double>());
  const double highest = std::max(0.0, (ranges.high * factors).max().item<double>());
  const double width = (highest - lowest) / static_cast<double>(input.highest - input.lowest);
  const double scale = width > 0 ? static_cast<float>(width) : input.range.step;
  const int64_t zero_point = input.lowest - std::llround(lowest / scale);
  return {.factors = factors.to(at::kFloat),
          .scale = scale,
          .zero_point = std::clamp(zero_point, input.lowest, input.highest),
          .lowest = input.lowest,
          .highest = input.highest};
}

InputRounding as_observed(const Depthwise& input) {
  return {.factors = at::ones({1}),
          .scale = input.qparams.scale.item<float>(),
          .zero_point = input.qparams.zero_point.item<int64_t>(),
          .lowest = input.lowest,
          .highest = input.highest};
}

std::string name_of_layer(const Depthwise& input) { return input.layer->output()->debugName(); }

ChannelRanges calibrated_ranges(const ChannelFactors& factors, const Depthwise& input) {
  const ir::ChannelStatistics& seen = ir::weighted_of(ir::call_of(factors.model, input.layer))->seen.input;
  return channel_ranges(input, seen.min, seen.max, factors.margin);
}

/// Model::input_factors of the layers for which they pay in values that the ranges were not found with.
void measure(const ChannelFactors& factors, const std::vector<Depthwise>& inputs) {
  std::vector<RoundedInput> rounded;
  for (const Depthwise& input : inputs) {
    const auto ways = [&factors, &input](const at::Tensor& min, const at::Tensor& max) {
      const ChannelRanges ranges = channel_ranges(input, min, max, factors.margin);
      std::vector<InputRounding> found;
      for (const double share : kShares)
        found.push_back(rounding(input, ranges, factors_for(input, ranges, share)));
      return found;
    };
    rounded.push_back({.layer = input.layer, .now = as_observed(input), .ways = ways});
  }
  const auto noise = held_back_noise(factors.model, rounded, factors.context);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const auto least = std::ranges::min_element(noise[i]);
    if (least == noise[i].end() || !(*least < kWorthwhile)) continue;
    const double share = kShares[static_cast<std::size_t>(least - noise[i].begin())];
    factors.model.input_factors.emplace(name_of_layer(inputs[i]),
                                        factors_for(inputs[i], calibrated_ranges(factors, inputs[i]), share));
  }
}

void scale_input(const ChannelFactors& factors, const Depthwise& input, const at::Tensor& by) {
  ir::Model& model = factors.model;
  const InputRounding found = rounding(input, calibrated_ranges(factors, input), by);
  Node* reader = input.input.computed->uses().front().user;
  Value* product = multiply_channels(model, reader, input.input.computed, found.factors,
                                     layer_path(model, input.layer) + "_input_factors", input.layer);
  ir::replace_operand(reader, input.input.computed, product);
  const std::size_t old = ir::observer_index(input.input.observer);
  const std::size_t scaled = add_observer(model, old, model.observers[old].module.value());
  for (Node* observer : {input.input.observer, input.input.after_padding}) {
    if (observer != nullptr) ir::set_observer_index(observer, scaled);
  }
  QParams qparams = input.qparams;
  qparams.scale = at::full_like(qparams.scale, found.scale);
  qparams.zero_point = at::full_like(qparams.zero_point, found.zero_point);
  model.observers[scaled].result = ir::ObserverResult{.qparams = std::move(qparams)};
  scale_module(model, input.layer, {.input = by});
  report_equalization(factors, input.layer, "each channel of its input has a scale of its own");
}

}  // namespace

bool scale_depthwise_inputs(Model& model, const PassContext& context) {
  const auto factors = channel_factors(model, context);
  if (!factors) return false;
  std::vector<Depthwise> inputs;
  for (Node* node : ir::nodes_in_order(*model.graph)) {
    if (auto found = depthwise(*factors, node)) inputs.push_back(std::move(*found));
  }
  if (model.input_factors.empty() && !context.samples.empty() && !inputs.empty()) measure(*factors, inputs);
  return change_each(inputs, [&](const Depthwise& input) {
    const auto found = model.input_factors.find(name_of_layer(input));
    if (found == model.input_factors.end() ||
        found->second.numel() != ir::weighted_of(ir::call_of(model, input.layer))->groups)
      return false;
    scale_input(*factors, input, found->second);
    return true;
  });
}

}  // namespace tsq::passes
