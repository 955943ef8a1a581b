#include "passes/numerics/channel_factors.h"

#include <ATen/ATen.h>
#include <tsq/recipe.h>

#include <algorithm>
#include <utility>

#include "ir/analysis.h"
#include "ir/observer_results.h"
#include "match/channel_scaling.h"

namespace tsq::passes {
namespace {

/// Exponents of the factors that are tried, in tenths.
constexpr int kExponents = 10;
/// Of a channel's share of the least error that factors can leave: less of it is not worth a larger factor.
constexpr double kNegligible = 0.01;
constexpr double kLargestCode = 127.5;

}  // namespace

ExpectedError::ExpectedError(const ir::Weighted& layer, double step)
    : weights_(layer.weight.detach()
                   .to(at::kDouble)
                   .reshape({layer.groups, layer.weight.size(0) / layer.groups, layer.weight.size(1), -1})),
      mean_square_(layer.seen.input.mean_square.to(at::kDouble).reshape({layer.groups, 1, -1})),
      of_activation_(mean_square_.clamp_max(step * step / 12)) {}

ExpectedError::ExpectedError(const operators::BatchNorm& bn, const at::Tensor& mean_square, double step)
    : weights_(
          (bn.weight * at::rsqrt(bn.running_var + bn.eps)).detach().to(at::kDouble).reshape({-1, 1, 1, 1})),
      mean_square_(mean_square.to(at::kDouble).reshape({-1, 1, 1})),
      of_activation_(mean_square_.clamp_max(step * step / 12)),
      rounds_weights_(false) {}

double ExpectedError::operator()(const at::Tensor& factors) const {
  const at::Tensor by_group = factors.reshape(mean_square_.sizes());
  const at::Tensor scaled = weights_ / by_group.unsqueeze(3);
  const at::Tensor from_activations = (scaled.square().sum(3) * of_activation_).sum();
  if (!rounds_weights_) return from_activations.item<double>();
  const at::Tensor step = scaled.abs().amax({2, 3}) / kLargestCode;
  const at::Tensor inputs = (mean_square_ * by_group.square()).sum(2) * static_cast<double>(weights_.size(3));
  return (from_activations + (step.square() / 12 * inputs).sum()).item<double>();
}

at::Tensor ExpectedError::useful(const at::Tensor& largest) const {
  const at::Tensor noise = (weights_.square().sum({1, 3}) * of_activation_.squeeze(1)).flatten();
  const double least = (noise / largest.square()).mean().item<double>();
  if (!(least > 0)) return largest;
  return at::minimum(largest, (noise / (kNegligible * least)).sqrt().clamp_min(1));
}

namespace {

std::unordered_set<const void*> weights_of_several_calls(const Model& model) {
  std::unordered_set<const void*> seen;
  std::unordered_set<const void*> several;
  for (const Node* node : ir::nodes_in_order(*model.graph)) {
    if (!ir::is_module_call(node)) continue;
    const ir::Weighted* weighted = ir::weighted_of(ir::call_of(model, node));
    if (weighted == nullptr) continue;
    const void* memory = weighted->weight.const_data_ptr();
    if (!seen.insert(memory).second) several.insert(memory);
  }
  return several;
}

}  // namespace

std::optional<ChannelFactors> channel_factors(Model& model, const PassContext& context) {
  const auto margin = cross_layer_margin(context.options);
  if (!margin) return std::nullopt;
  return ChannelFactors{model, context, *margin, weights_of_several_calls(model)};
}

const ir::Weighted* equalizable_layer(const ChannelFactors& factors, const Node* node) {
  const ir::Weighted* layer = match::equalizable_layer(factors.model, node);
  const bool is_alone = layer != nullptr && !factors.shared_weights.contains(layer->weight.const_data_ptr());
  return is_alone ? layer : nullptr;
}

void report_equalization(const ChannelFactors& factors, const Node* node, std::string text) {
  if (Decision* decision = ir::decision_of(factors.model, node)) decision->equalization = std::move(text);
}

void ObservedRange::intersect(const ObservedRange& other) {
  lowest = std::max(lowest, other.lowest);
  highest = std::min(highest, other.highest);
  step = std::max(step, other.step);
}

std::optional<ObservedRange> observed_range(const Model& model, const Node* observer) {
  const ir::ObserverEntry& entry = ir::observer_of(model, observer);
  const ResolvedObserver config = resolve(entry.spec);
  const bool is_byte = config.dtype == c10::ScalarType::QUInt8 || config.dtype == c10::ScalarType::QInt8;
  if (config.is_dynamic || !is_byte || !config.quant_min || !config.quant_max) return std::nullopt;
  const ir::ObserverResult found = ir::result_of(entry);
  if (!found.saw_data || found.saw_other_dtype || !found.qparams) return std::nullopt;
  const QParams& qparams = *found.qparams;
  if (qparams.scale.numel() != 1) return std::nullopt;
  const double scale = qparams.scale.item<float>();
  const auto zero_point = qparams.zero_point.item<int64_t>();
  return ObservedRange{.lowest = static_cast<double>(*config.quant_min - zero_point) * scale,
                       .highest = static_cast<double>(*config.quant_max - zero_point) * scale,
                       .step = scale};
}

at::Tensor headroom(const ir::ChannelStatistics& channels, const ObservedRange& range, double margin) {
  const auto one_side = [&](const at::Tensor& extreme, double end) {
    const at::Tensor reach = extreme.to(at::kDouble).clamp_min(0) * margin;
    return (end / reach).masked_fill(reach == 0, std::numeric_limits<double>::infinity());
  };
  return at::minimum(one_side(channels.max, range.highest), one_side(-channels.min, -range.lowest));
}

at::Tensor as_factors(const at::Tensor& headroom) {
  // Nothing is known of a channel that was always zero.
  return headroom.masked_fill(headroom.isinf(), 1.0).clamp_min(1);
}

at::Tensor room(const ir::ChannelStatistics& channels, const ObservedRange& range, double margin) {
  return as_factors(headroom(channels, range, margin));
}

void for_each_strength(const at::Tensor& largest, const at::Tensor& useful,
                       const std::function<void(const at::Tensor& factors)>& try_factors) {
  for (int tenths = 1; tenths <= kExponents; ++tenths)
    try_factors(at::minimum(largest.pow(static_cast<double>(tenths) / kExponents), useful));
}

at::Tensor best_factors(const ir::Weighted& layer, const at::Tensor& largest, double step, double share) {
  const ExpectedError error(layer, step);
  double least = share * error(at::ones_like(largest));
  at::Tensor best;
  for_each_strength(largest, error.useful(largest), [&](const at::Tensor& factors) {
    const double expected = error(factors);
    if (expected >= least) return;
    least = expected;
    best = factors;
  });
  return best;
}

}  // namespace tsq::passes
