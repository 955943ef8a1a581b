#include "passes/observe/channel_factors.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

#include "match/equalizable.h"
#include "operators/clamp_bounds.h"
#include "operators/traits.h"
#include "operators/weighted.h"
#include "passes/observe/observer_result.h"
#include "passes/observe/passes.h"

namespace tsq::passes {
namespace {

using ir::GraphModule;
using ir::Node;
using ir::Value;
using torch::jit::Module;

/// A channel that hardly showed in the calibration data may be larger elsewhere.
constexpr double kLargestFactor = 16;
/// Exponents of the factors that are tried, in tenths.
constexpr int kExponents = 10;

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

/// Whether a reader is a float operator. What puts the value elsewhere hands it on to readers that are not
/// seen.
bool reads_in_float(const GraphModule& gm, const Node* reader) {
  const ir::NodeState* state = ir::state_of(gm, reader);
  if (ir::is_observer(reader) || ir::is_standalone(gm, reader) || (state != nullptr && state->observed))
    return false;
  if (ir::is_module_call(reader)) return true;
  const c10::FunctionSchema* schema = reader->maybeSchema();
  return schema != nullptr && !schema->is_mutable();
}

}  // namespace

void ObservedRange::intersect(const ObservedRange& other) {
  lowest = std::max(lowest, other.lowest);
  highest = std::min(highest, other.highest);
  step = std::max(step, other.step);
}

std::optional<ObservedRange> observed_range(const GraphModule& gm, std::span<const Module> observers,
                                            const Node* observer) {
  const std::size_t index = ir::observer_index(observer);
  const ObserverSpec& spec = gm.observers[index].spec;
  const ResolvedObserver config = resolve(spec);
  const bool is_byte = config.dtype == c10::ScalarType::QUInt8 || config.dtype == c10::ScalarType::QInt8;
  if (config.is_dynamic || !is_byte || !config.quant_min || !config.quant_max) return std::nullopt;
  const ObserverResult found = observer_result(spec, observers[index]);
  if (!found.saw_data || found.saw_other_dtype || !found.qparams) return std::nullopt;
  const QParams& qparams = *found.qparams;
  if (qparams.scale.numel() != 1) return std::nullopt;
  const double scale = qparams.scale.item<float>();
  const auto zero_point = qparams.zero_point.item<int64_t>();
  return ObservedRange{.lowest = static_cast<double>(*config.quant_min - zero_point) * scale,
                       .highest = static_cast<double>(*config.quant_max - zero_point) * scale,
                       .step = scale};
}

std::unordered_set<const void*> weights_of_several_calls(const GraphModule& gm) {
  std::unordered_set<const void*> seen;
  std::unordered_set<const void*> several;
  for (const Node* node : ir::nodes_in_order(*gm.graph)) {
    if (!ir::is_module_call(node)) continue;
    const ir::Weighted* weighted = ir::weighted_of(ir::call_of(gm, node));
    if (weighted == nullptr) continue;
    const void* memory = weighted->weight.const_data_ptr();
    if (!seen.insert(memory).second) several.insert(memory);
  }
  return several;
}

const ir::Weighted* equalizable_layer(const GraphModule& gm, const Node* node) {
  if (!ir::is_module_call(node) || node->inputs().size() != 1 || !match::equalizable(gm, node))
    return nullptr;
  const QConfig* qconfig = ir::observed_qconfig(gm, node);
  if (qconfig == nullptr) return nullptr;
  const ResolvedObserver weight = resolve(qconfig->weight);
  const bool has_row_scales = weight.qscheme == c10::QScheme::PER_CHANNEL_SYMMETRIC && weight.ch_axis == 0 &&
                              weight.group_size == 0 && weight.dtype == c10::ScalarType::QInt8;
  return has_row_scales ? ir::weighted_of(ir::call_of(gm, node)) : nullptr;
}

bool commutes_with_scaling(const GraphModule& gm, const Node* node) {
  const auto bounds = operators::clamp_bounds(gm, node);
  return bounds && (bounds->lowest == 0 || std::isinf(bounds->lowest)) && std::isinf(bounds->highest);
}

bool is_float(const GraphModule& gm, const Value* value) {
  const Node* node = value->node();
  if (node->kind() == c10::prim::Param) return node->owningBlock()->owningNode() == nullptr;
  if (ir::is_observer(node) || ir::is_standalone(gm, node) || commutes_with_scaling(gm, node)) return false;
  const ir::NodeState* state = ir::state_of(gm, node);
  return node->blocks().empty() && (state == nullptr || !state->observed);
}

bool is_leaky(const GraphModule& gm, const Node* node) {
  return operators::is_one_of(gm, node, {"prelu", "leaky_relu"});
}

bool is_batch_norm(const GraphModule& gm, const Node* node) {
  if (!ir::is_module_call(node) || ir::is_standalone(gm, node)) return false;
  const ir::ModuleCall& call = ir::call_of(gm, node);
  if (!call.module || !call.members.empty() || !call.type.name.starts_with("torch.nn.BatchNorm"))
    return false;
  const auto parameters = operators::batch_norm_parameters(*call.module);
  return parameters && parameters->weight.defined() && parameters->bias.defined();
}

Node* observer_behind(const GraphModule& gm, const Node* layer) {
  const Value* value = layer->output();
  while (value->uses().size() == 1) {
    Node* user = value->uses().front().user;
    if (user->owningBlock() != layer->owningBlock()) return nullptr;
    if (ir::is_observer(user)) return user;
    if (!commutes_with_scaling(gm, user)) return nullptr;
    value = user->output();
  }
  return nullptr;
}

bool is_read_in_float(const GraphModule& gm, const Node* observer) {
  const auto readers = ir::users(observer->output());
  return !readers.empty() &&
         std::ranges::all_of(readers, [&](const Node* reader) { return reads_in_float(gm, reader); });
}

at::Tensor room(const ir::ChannelStatistics& channels, const ObservedRange& range, double margin) {
  const auto one_side = [&](const at::Tensor& extreme, double end) {
    const at::Tensor reach = extreme.to(at::kDouble).clamp_min(0) * margin;
    return (end / reach).masked_fill(reach == 0, std::numeric_limits<double>::infinity());
  };
  const at::Tensor factors =
      at::minimum(one_side(channels.max, range.highest), one_side(-channels.min, -range.lowest));
  // Nothing is known of a channel that was always zero.
  return factors.masked_fill(factors.isinf(), 1.0).clamp(1, kLargestFactor);
}

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

}  // namespace tsq::passes
