// Channels of unlike size where a float value becomes quantized, or vice versa: a multiplication
// beside the quantized layer fills the tensor's range, the layer's weights take it back.
//   sqrt → observer → conv   becomes   sqrt → mul(s) → observer → conv (columns / s)
//   conv → observer → norm   becomes   conv (rows · s) → observer → mul(1 / s) → norm
// A multiplication takes time: only where it saves much.

#include <ATen/ATen.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "backends/kernels/float_output.h"
#include "match/equalizable.h"
#include "passes/decision_index.h"
#include "passes/numerics/passes.h"
#include "passes/observe/channel_factors.h"
#include "passes/observe/channel_scales.h"

namespace tsq::passes {
namespace {

using ir::GraphModule;
using ir::Node;
using ir::Value;
using torch::jit::Module;

/// Of the error that is expected without the multiplication; a larger share is not worth it: beside a layer
/// that takes much longer, and beside one that takes as long as the multiplication.
constexpr double kWorthALittle = 0.5;
constexpr double kWorthALayer = 0.125;
/// Multiply-accumulates that a layer does with each value, from which on it takes much longer.
constexpr double kManyProducts = 64;
/// Rounding that is so small beside the channels' own variance, on the average, is nothing to save.
constexpr double kTolerableNoise = 2e-3;

class FloatValues {
 public:
  FloatValues(GraphModule& gm, std::span<const Module> observers, double margin,
              const DecisionIndex& decisions)
      : gm_(gm),
        observers_(observers),
        margin_(margin),
        decisions_(decisions),
        shared_(weights_of_several_calls(gm)) {}

  void run(Node* node) {
    const ir::Weighted* layer = equalizable_layer(gm_, node);
    if (layer == nullptr || shared_.contains(layer->weight.const_data_ptr())) return;
    multiply_in_front(node, *layer);
    multiply_behind(node, *layer);
  }

 private:
  void multiply_in_front(Node* node, const ir::Weighted& layer) {
    Node* observer = node->input(0)->node();
    if (!layer.input.mean.defined() || layer.weight.size(1) * layer.groups != layer.input.mean.numel())
      return;
    if (!ir::is_observer(observer) || observer->output()->uses().size() != 1 ||
        !is_float(gm_, behind_clamps(observer->input(0))) || is_bytes_already(observer->input(0)->node()))
      return;
    const auto range = observed_range(gm_, observers_, observer);
    if (!range) return;
    const at::Tensor factors =
        best_factors(layer, room(layer.input, *range, margin_), range->step, worth(products_of_input(layer)));
    if (!factors.defined()) return;
    const torch::jit::WithInsertPoint guard(observer);
    observer->replaceInput(0, product(observer->input(0), factors, "_input_factors", node));
    passes::scale_module(gm_, node, {.input = factors});
    report(node, "equalized by a multiplication before it");
  }

  void multiply_behind(Node* node, const ir::Weighted& layer) {
    if (!layer.output.mean.defined() || layer.output.mean.numel() != layer.weight.size(0)) return;
    Node* observer = observer_behind(gm_, node);
    const bool is_float = observer != nullptr && is_read_in_float(gm_, observer) &&
                          !kernels::gives_float_for_free(gm_, node);  // nothing will be rounded there
    const auto range = is_float ? observed_range(gm_, observers_, observer) : std::nullopt;
    if (!range) return;
    const at::Tensor factors = room(layer.output, *range, margin_);
    const double before = noise(layer.output, range->step, at::ones_like(factors));
    const double after = noise(layer.output, range->step, factors);
    if (before < kTolerableNoise || after > worth(products_of_output(layer)) * before) return;
    const torch::jit::WithInsertPoint guard(observer->next());
    Value* exact = product(observer->output(), at::reciprocal(factors), "_output_factors", node);
    observer->output()->replaceAllUsesAfterNodeWith(exact->node(), exact);
    passes::scale_module(gm_, node, {.output = factors});
    report(node, "equalized by a multiplication after it");
  }

  /// An activation that the kernel of the layer in front does, rounding as well: a multiplication in between
  /// would cost both.
  bool is_bytes_already(const Node* activation) const {
    const auto operands = ir::operands(activation);
    return !operands.empty() && kernels::is_done_by_kernel(gm_, operands.front()->node(), activation);
  }

  Value* behind_clamps(Value* value) const {
    while (commutes_with_scaling(gm_, value->node())) value = ir::operands(value->node()).front();
    return value;
  }

  static double worth(double products) { return products < kManyProducts ? kWorthALayer : kWorthALittle; }

  static double products_of_output(const ir::Weighted& layer) {
    return static_cast<double>(layer.weight.numel()) / static_cast<double>(layer.weight.size(0));
  }

  static double products_of_input(const ir::Weighted& layer) {
    const auto channels = static_cast<double>(layer.weight.size(1) * layer.groups);
    const double strides =
        std::accumulate(layer.stride.begin(), layer.stride.end(), 1.0, std::multiplies<>());
    return static_cast<double>(layer.weight.numel()) / (channels * strides);
  }

  /// What rounding adds to the channels, as a share of their variance, on the average.
  static double noise(const ir::ChannelStatistics& channels, double step, const at::Tensor& factors) {
    const at::Tensor variance = (channels.mean_square - channels.mean.square()).clamp_min(0);
    const at::Tensor share = (step * step / 12) / (factors.square() * variance);
    return share.masked_select(variance > 0).clamp_max(1).mean().item<double>();
  }

  Value* product(Value* x, const at::Tensor& factors, const char* suffix, const Node* layer) {
    return passes::multiply_channels(gm_, x, factors.to(at::kFloat), passes::layer_path(gm_, layer) + suffix,
                                     *match::equalizable(gm_, layer), layer);
  }

  void report(const Node* node, const char* text) {
    if (Decision* decision = decisions_.of(node)) decision->equalization = text;
  }

  GraphModule& gm_;
  std::span<const Module> observers_;
  double margin_;
  const DecisionIndex& decisions_;
  std::unordered_set<const void*> shared_;
};

}  // namespace

void equalize_float_values(GraphModule& gm, std::span<const Module> observers, double margin,
                           Report& report) {
  const DecisionIndex decisions(report);
  FloatValues values(gm, observers, margin, decisions);
  for (Node* node : ir::nodes_in_order(*gm.graph)) values.run(node);
}

}  // namespace tsq::passes
