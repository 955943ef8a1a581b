// Channels that use a small part of their tensor's range are multiplied in the layer that gives them and
// divided in the one that reads them (Nagel et al., "Data-Free Quantization Through Weight Equalization and
// Bias Correction", 2019, section 4.1, with ranges that are observed).
//   a → relu → observer → b   becomes   a (rows · s) → relu → observer → b (columns / s)
// The first layer's rows have a scale each and lose nothing. The tensor's range stays what it was: factors
// only fill it. What a factor costs in the second layer, whose rounding its larger input multiplies, is
// weighed against what it saves.
//   sqrt → observer → b   becomes   sqrt → mul(s) → observer → b (columns / s)
// where nothing in front is quantized and a multiplication saves much.

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "match/equalizable.h"
#include "modules/channel_scales.h"
#include "modules/clamp_bounds.h"
#include "passes/decision_index.h"
#include "passes/passes.h"

namespace tsq::passes {
namespace {

using ir::GraphModule;
using ir::Node;
using ir::Value;
using torch::jit::Module;

/// A channel that hardly showed in the calibration data may be larger elsewhere.
constexpr double kLargestFactor = 16;
/// Shares of the error that is expected without factors; more is not worth the change.
constexpr double kNoticeable = 0.99;
constexpr double kWorthAMultiplication = 0.5;
/// Exponents of the factors that are tried, in tenths.
constexpr int kExponents = 10;

struct Range {
  double lowest{-std::numeric_limits<double>::infinity()};
  double highest{std::numeric_limits<double>::infinity()};

  void intersect(const Range& other) {
    lowest = std::max(lowest, other.lowest);
    highest = std::min(highest, other.highest);
  }
};

/// Two layers with nothing between them that scaling a channel would change; or a float operator's output,
/// its observer and the layer behind it.
struct Chain {
  Node* first{};           ///< null behind a float operator
  Node* float_observer{};  ///< of a float operator's output
  Node* second{};
  Range range{};  ///< what quantizing between them lets through
  double step{};  ///< of the quantized tensor
};

/// A quantized layer of one input whose weights have a scale a row; null for others.
const ir::Weighted* equalizable_layer(const GraphModule& gm, const Node* node) {
  if (!ir::is_module_call(node) || node->inputs().size() != 1 || !match::equalizable(gm, node))
    return nullptr;
  const ir::NodeState* state = ir::state_of(gm, node);
  if (state == nullptr || !state->observed || !state->qconfig) return nullptr;
  const ResolvedObserver weight = resolve(state->qconfig->weight);
  const bool has_row_scales = weight.qscheme == c10::QScheme::PER_CHANNEL_SYMMETRIC && weight.ch_axis == 0 &&
                              weight.group_size == 0 && weight.dtype == c10::ScalarType::QInt8;
  return has_row_scales ? ir::weighted_of(ir::call_of(gm, node)) : nullptr;
}

class EqualizeAcrossLayers {
 public:
  EqualizeAcrossLayers(GraphModule& gm, std::span<const Module> observers) : gm_(gm), observers_(observers) {}

  /// What ends in the layer `second`; empty when nothing does.
  std::optional<Chain> chain_to(Node* second) const {
    const ir::Weighted* reads = equalizable_layer(gm_, second);
    if (reads == nullptr || !reads->input.mean.defined()) return std::nullopt;
    Chain chain{.second = second};
    bool behind_clamp = false;
    Value* value = second->input(0);
    while (value->uses().size() == 1 || is_float(value)) {
      Node* node = value->node();
      if (is_float(value)) return chain.step > 0 && fits(*reads) ? std::optional(chain) : std::nullopt;
      if (const ir::Weighted* gives = equalizable_layer(gm_, node)) {
        chain.first = node;
        return chain.step > 0 && fits(*gives, *reads) ? std::optional(chain) : std::nullopt;
      }
      if (ir::is_observer(node)) {
        if (behind_clamp || !take_observer(chain, node)) return std::nullopt;
        chain.float_observer = node;
        value = node->input(0);
        continue;
      }
      if (!commutes_with_scaling(node)) return std::nullopt;
      behind_clamp = true;
      value = ir::operands(node).front();
    }
    return std::nullopt;
  }

 private:
  /// relu(s · x) is s · relu(x). An upper end would cut what the calibration data did not show of a channel.
  bool commutes_with_scaling(const Node* node) const {
    const auto bounds = modules::clamp_bounds(gm_, node);
    return bounds && (bounds->lowest == 0 || std::isinf(bounds->lowest)) && std::isinf(bounds->highest);
  }

  /// The graph's input, or what an operator computes in float.
  bool is_float(const Value* value) const {
    const Node* node = value->node();
    if (node->kind() == c10::prim::Param) return node->owningBlock()->owningNode() == nullptr;
    if (ir::is_observer(node) || ir::is_standalone(gm_, node) || commutes_with_scaling(node)) return false;
    const ir::NodeState* state = ir::state_of(gm_, node);
    return node->blocks().empty() && (state == nullptr || !state->observed);
  }

  static bool fits(const ir::Weighted& reads) {
    return reads.weight.size(1) * reads.groups == reads.input.mean.numel();
  }
  static bool fits(const ir::Weighted& gives, const ir::Weighted& reads) {
    return fits(reads) && gives.weight.size(0) == reads.input.mean.numel() &&
           gives.weight.dim() == reads.weight.dim();
  }

  /// False for observers that find no range for the whole tensor, those of smoothing among them.
  bool take_observer(Chain& chain, const Node* node) const {
    const std::size_t index = ir::observer_index(node);
    const ObserverSpec& spec = gm_.observers[index].spec;
    const ResolvedObserver config = resolve(spec);
    const bool is_byte = config.dtype == c10::ScalarType::QUInt8 || config.dtype == c10::ScalarType::QInt8;
    if (config.is_dynamic || !is_byte || !config.quant_min || !config.quant_max) return false;
    const ObserverResult found = observer_result(spec, observers_[index]);
    if (!found.saw_data || found.saw_other_dtype || !found.qparams) return false;
    const QParams& qparams = *found.qparams;
    if (qparams.scale.numel() != 1) return false;
    const double scale = qparams.scale.item<float>();
    const auto zero_point = qparams.zero_point.item<int64_t>();
    chain.range.intersect({.lowest = static_cast<double>(*config.quant_min - zero_point) * scale,
                           .highest = static_cast<double>(*config.quant_max - zero_point) * scale});
    chain.step = std::max(chain.step, scale);
    return true;
  }

  GraphModule& gm_;
  std::span<const Module> observers_;
};

/// The largest factor of each channel with which `margin` times what was seen of it stays inside of the
/// range, at least 1.
at::Tensor room(const ir::ChannelStatistics& input, const Range& range, double margin) {
  const auto one_side = [&](const at::Tensor& extreme, double end) {
    const at::Tensor reach = extreme.to(at::kDouble).clamp_min(0) * margin;
    return (end / reach).masked_fill(reach == 0, std::numeric_limits<double>::infinity());
  };
  const at::Tensor factors =
      at::minimum(one_side(input.max, range.highest), one_side(-input.min, -range.lowest));
  // Nothing is known of a channel that was always zero.
  return factors.masked_fill(factors.isinf(), 1.0).clamp(1, kLargestFactor);
}

/// What rounding adds to the squares of the second layer's outputs, as far as it depends on the factors.
class ExpectedError {
 public:
  ExpectedError(const ir::Weighted& layer, double step)
      : weights_(layer.weight.detach()
                     .to(at::kDouble)
                     .reshape({layer.groups, layer.weight.size(0) / layer.groups, layer.weight.size(1), -1})),
        mean_square_(layer.input.mean_square.to(at::kDouble).reshape({layer.groups, 1, -1})),
        of_activation_(mean_square_.clamp_max(step * step / 12)) {}

  double operator()(const at::Tensor& factors) const {
    const at::Tensor by_group = factors.reshape(mean_square_.sizes());
    const at::Tensor scaled = weights_ / by_group.unsqueeze(3);
    const at::Tensor step = scaled.abs().amax({2, 3}) / kLargestCode;
    const at::Tensor from_activations = (scaled.square().sum(3) * of_activation_).sum();
    const at::Tensor inputs =
        (mean_square_ * by_group.square()).sum(2) * static_cast<double>(weights_.size(3));
    return (from_activations + (step.square() / 12 * inputs).sum()).item<double>();
  }

 private:
  static constexpr double kLargestCode = 127.5;
  at::Tensor weights_;      // [groups, outputs, inputs, taps]
  at::Tensor mean_square_;  // [groups, 1, inputs]
  at::Tensor of_activation_;
};

/// The factors between 1 and `largest` with the least expected error; undefined when none has less than this
/// share of the error without.
at::Tensor best_factors(const ir::Weighted& layer, const at::Tensor& largest, double step, double share) {
  const ExpectedError error(layer, step);
  double least = share * error(at::ones_like(largest));
  at::Tensor best;
  for (int tenths = 1; tenths <= kExponents; ++tenths) {
    const at::Tensor factors = largest.pow(static_cast<double>(tenths) / kExponents);
    const double expected = error(factors);
    if (expected >= least) continue;
    least = expected;
    best = factors;
  }
  return best;
}

/// mul(x, factors) in front of an observer.
void multiply_in_front(GraphModule& gm, const Chain& chain, const match::Equalizable& kind,
                       const at::Tensor& factors) {
  const torch::jit::WithInsertPoint guard(chain.float_observer);
  Value* exact = chain.float_observer->input(0);
  Value* product = modules::multiply_channels(
      gm, exact, factors, modules::layer_path(gm, chain.second) + "_input_scale", kind, chain.second);
  chain.float_observer->replaceInput(0, product);
}

std::string explanation(const GraphModule& gm, const Chain& chain, bool is_equalized) {
  if (chain.first == nullptr) return is_equalized ? "equalized by a multiplication in front of it" : "";
  const std::string& path = ir::call_of(gm, chain.first).path;
  return is_equalized ? fmt::format("equalized with '{}'", path)
                      : fmt::format("not equalized with '{}': it would not lower the error", path);
}

}  // namespace

void equalize_across_layers(GraphModule& gm, std::span<const Module> observers, double margin,
                            Report& report) {
  const DecisionIndex decisions(report);
  const EqualizeAcrossLayers chains(gm, observers);
  for (Node* node : ir::nodes_in_order(*gm.graph)) {
    const auto chain = chains.chain_to(node);
    if (!chain) continue;
    const ir::Weighted& second = *ir::weighted_of(ir::call_of(gm, node));
    const at::Tensor factors = best_factors(second, room(second.input, chain->range, margin), chain->step,
                                            chain->first == nullptr ? kWorthAMultiplication : kNoticeable);
    if (Decision* decision = decisions.of(node))
      decision->equalization = explanation(gm, *chain, factors.defined());
    if (!factors.defined()) continue;
    const at::Tensor scale = factors.to(second.weight.scalar_type());
    const auto kind = *match::equalizable(gm, node);
    std::vector<Module> none;
    if (chain->first == nullptr) {
      multiply_in_front(gm, *chain, kind, scale);
    } else {
      modules::scale_parameters(gm, none, chain->first, *match::equalizable(gm, chain->first),
                                {.output = scale});
    }
    modules::scale_parameters(gm, none, node, kind, {.input = scale});
  }
}

}  // namespace tsq::passes
