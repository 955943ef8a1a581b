// Channels that use a small part of their tensor's range are multiplied in the layer that computes them and
// divided in the one that reads them (Nagel et al., "Data-Free Quantization Through Weight Equalization and
// Bias Correction", 2019, section 4.1, with ranges that are observed).
//   a → relu → observer → b   becomes   a (rows · s) → relu → observer → b (columns / s)
// So it is done across PReLU, LeakyReLU, maximum pools and zero padding, whose input may have an observer
// too, and with a batch norm that stands after a relu as one of the layers. The first layer's rows have a
// scale each and lose nothing. The tensor's range stays what it was: factors only fill it. What a factor
// costs in the second layer, whose rounding its larger input multiplies, is weighed against what it saves.

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "match/equalizable.h"
#include "operators/weighted.h"
#include "operators/zero_padding.h"
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

/// Of the error that is expected without factors; a larger share is not worth the change.
constexpr double kNoticeable = 0.99;
/// Padding of any number of dimensions after the channels.
constexpr std::size_t kDimensions = 3;

/// Two layers with nothing between them that scaling a channel would change. One may be a batch norm.
struct Chain {
  Node* first{};
  ObservedRange given{};  ///< what quantizing in front of a leaky ReLU lets through
  ObservedRange read{};   ///< and what that in front of the second layer does
};

class EqualizeAcrossLayers {
 public:
  EqualizeAcrossLayers(GraphModule& gm, std::span<const Module> observers, double margin,
                       const DecisionIndex& decisions)
      : gm_(gm),
        observers_(observers),
        margin_(margin),
        decisions_(decisions),
        shared_(weights_of_several_calls(gm)) {}

  void run(Node* second) {
    const ir::Weighted* reads = layer(second);
    const bool is_known = reads != nullptr ? reads->input.mean.defined() : is_batch_norm(gm_, second);
    const auto chain = is_known ? chain_to(second) : std::nullopt;
    if (!chain || channels_given(chain->first) != channels_read(second)) return;
    const at::Tensor factors = find_factors(*chain, reads);
    report(*chain, second, factors.defined());
    if (!factors.defined()) return;
    scale(chain->first, {.output = factors});
    scale(second, {.input = factors});
  }

 private:
  /// What ends in the layer `second`; empty when nothing does.
  std::optional<Chain> chain_to(Node* second) const {
    Chain chain;
    bool behind_clamp = false;
    ObservedRange* range = &chain.read;
    Value* value = second->input(0);
    while (value->uses().size() == 1) {
      Node* node = value->node();
      if (layer(node) != nullptr || is_batch_norm(gm_, node)) {
        chain.first = node;
        return chain.read.step > 0 ? std::optional(chain) : std::nullopt;
      }
      if (ir::is_observer(node)) {
        const auto found = observed_range(gm_, observers_, node);
        if (behind_clamp || !found) return std::nullopt;
        range->intersect(*found);
        value = node->input(0);
        continue;
      }
      if (is_leaky(gm_, node)) {
        range = &chain.given;
      } else if (commutes_with_scaling(gm_, node)) {
        behind_clamp = true;
      } else if (!is_maximum_pool(node) && !operators::zero_padding(gm_, node, kDimensions)) {
        return std::nullopt;
      }
      value = ir::operands(node).front();
    }
    return std::nullopt;
  }

  const ir::Weighted* layer(const Node* node) const {
    const ir::Weighted* weighted = equalizable_layer(gm_, node);
    return weighted != nullptr && !shared_.contains(weighted->weight.const_data_ptr()) ? weighted : nullptr;
  }

  bool is_maximum_pool(const Node* node) const {
    const auto targets = ir::targets(gm_, node);
    return std::ranges::any_of(targets, [](const Symbol& target) {
      return target.name.find("MaxPool") != std::string::npos ||
             target.name.find("max_pool") != std::string::npos;
    });
  }

  /// As many as the weight of a convolution has that the batch norm's class is for.
  int64_t batch_norm_dims(const Node* node) const {
    const std::string_view name = ir::call_of(gm_, node).type.name;
    return name.back() == 'd' ? name[name.size() - 2] - '0' + 2 : 0;
  }

  int64_t batch_norm_channels(const Node* node) const {
    return operators::batch_norm_parameters(*ir::call_of(gm_, node).module)->running_mean.numel();
  }

  std::pair<int64_t, int64_t> channels_given(const Node* first) const {
    const ir::Weighted* gives = layer(first);
    return gives != nullptr ? std::pair(gives->weight.size(0), gives->weight.dim())
                            : std::pair(batch_norm_channels(first), batch_norm_dims(first));
  }

  std::pair<int64_t, int64_t> channels_read(const Node* second) const {
    const ir::Weighted* reads = layer(second);
    if (reads == nullptr) return {batch_norm_channels(second), batch_norm_dims(second)};
    const int64_t channels = reads->weight.size(1) * reads->groups;
    return {channels == reads->input.mean.numel() ? channels : -1, reads->weight.dim()};
  }

  /// The factors between 1 and what the ranges have room for; undefined when they do not lower the error.
  at::Tensor find_factors(const Chain& chain, const ir::Weighted* reads) const {
    const ir::Weighted* gives = layer(chain.first);
    const bool needs_output = chain.given.step > 0 || reads == nullptr;
    if (needs_output && (gives == nullptr || !gives->output.mean.defined())) return {};
    ObservedRange given = chain.given;
    if (reads == nullptr) given.intersect(chain.read);
    at::Tensor largest;
    if (reads != nullptr) largest = room(reads->input, chain.read, margin_);
    if (needs_output) {
      const at::Tensor of_output = room(gives->output, given, margin_);
      largest = largest.defined() ? at::minimum(largest, of_output) : of_output;
    }
    if (reads == nullptr) return largest;
    return best_factors(*reads, largest, std::max(chain.read.step, chain.given.step), kNoticeable);
  }

  void scale(Node* node, const passes::ChannelScales& factors) {
    if (layer(node) == nullptr) {
      ir::ModuleCall& call = ir::call_of(gm_, node);
      call.module = operators::scaled_batch_norm(*call.module, factors.input, factors.output);
      return;
    }
    passes::scale_module(gm_, node, factors);
  }

  void report(const Chain& chain, const Node* second, bool is_equalized) const {
    Decision* decision = decisions_.of(second);
    if (decision == nullptr) return;
    const std::string& path = ir::call_of(gm_, chain.first).path;
    decision->equalization = is_equalized
                                 ? fmt::format("equalized with '{}'", path)
                                 : fmt::format("not equalized with '{}': it would not lower the error", path);
  }

  GraphModule& gm_;
  std::span<const Module> observers_;
  double margin_;
  const DecisionIndex& decisions_;
  std::unordered_set<const void*> shared_;
};

}  // namespace

void equalize_across_layers(GraphModule& gm, std::span<const Module> observers, double margin,
                            Report& report) {
  const DecisionIndex decisions(report);
  EqualizeAcrossLayers pass(gm, observers, margin, decisions);
  for (Node* node : ir::nodes_in_order(*gm.graph)) pass.run(node);
}

}  // namespace tsq::passes
