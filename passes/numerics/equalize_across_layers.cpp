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

#include "ir/analysis.h"
#include "match/channel_scaling.h"
#include "operators/images/zero_padding.h"
#include "operators/traits.h"
#include "operators/weighted.h"
#include "passes/numerics/channel_factors.h"
#include "passes/numerics/channel_scales.h"
#include "passes/numerics/passes.h"

namespace tsq::passes {
namespace {

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

bool is_maximum_pool(const Model& model, const Node* node) {
  return std::ranges::any_of(ir::targets(model, node), [](const Symbol& target) {
    return target.name.find("MaxPool") != std::string::npos ||
           target.name.find("max_pool") != std::string::npos;
  });
}

/// What ends in the layer `second`; empty when nothing does.
std::optional<Chain> chain_to(const ChannelFactors& factors, Node* second) {
  const Model& model = factors.model;
  Chain chain;
  bool after_clamp = false;
  ObservedRange* range = &chain.read;
  Value* value = second->input(0);
  while (operators::readers_of_numbers(value).size() == 1) {
    Node* node = value->node();
    if (equalizable_layer(factors, node) != nullptr || match::is_affine_batch_norm(model, node)) {
      chain.first = node;
      return chain.read.step > 0 ? std::optional(chain) : std::nullopt;
    }
    if (ir::is_observer(node)) {
      const auto found = observed_range(model, node);
      if (after_clamp || !found) return std::nullopt;
      range->intersect(*found);
      value = node->input(0);
      continue;
    }
    if (match::is_leaky(model, node)) {
      range = &chain.given;
    } else if (match::commutes_with_scaling(model, node)) {
      after_clamp = true;
    } else if (!is_maximum_pool(model, node) && !operators::zero_padding(model, node, kDimensions)) {
      return std::nullopt;
    }
    value = ir::operands(node).front();
  }
  return std::nullopt;
}

/// How many channels there are, and in a tensor of how many dimensions.
using Channels = std::pair<int64_t, int64_t>;

Channels channels_of_batch_norm(const Model& model, const Node* node) {
  const ir::ModuleCall& call = ir::call_of(model, node);
  const std::string_view name = call.type.name;
  // As many as the weight of a convolution has that the batch norm's class is for.
  const int64_t dims = name.back() == 'd' ? name[name.size() - 2] - '0' + 2 : 0;
  return {operators::batch_norm_parameters(*call.module)->running_mean.numel(), dims};
}

Channels channels_given(const ChannelFactors& factors, const Node* first) {
  const ir::Weighted* gives = equalizable_layer(factors, first);
  return gives != nullptr ? Channels(gives->weight.size(0), gives->weight.dim())
                          : channels_of_batch_norm(factors.model, first);
}

Channels channels_read(const ChannelFactors& factors, const Node* second) {
  const ir::Weighted* reads = equalizable_layer(factors, second);
  if (reads == nullptr) return channels_of_batch_norm(factors.model, second);
  const int64_t channels = reads->weight.size(1) * reads->groups;
  return {channels == reads->input.mean.numel() ? channels : -1, reads->weight.dim()};
}

/// The factors between 1 and what the ranges have room for; undefined when they do not lower the error.
at::Tensor find_factors(const ChannelFactors& factors, const Chain& chain, const ir::Weighted* reads) {
  const ir::Weighted* gives = equalizable_layer(factors, chain.first);
  const bool needs_output = chain.given.step > 0 || reads == nullptr;
  if (needs_output && (gives == nullptr || !gives->output.mean.defined())) return {};
  ObservedRange given = chain.given;
  if (reads == nullptr) {
    given.intersect(chain.read);
    return room(gives->output, given, factors.margin);
  }
  at::Tensor largest = room(reads->input, chain.read, factors.margin);
  if (needs_output) largest = at::minimum(largest, room(gives->output, given, factors.margin));
  return best_factors(*reads, largest, std::max(chain.read.step, chain.given.step), kNoticeable);
}

void scale(const ChannelFactors& factors, Node* node, const ChannelScales& scales) {
  if (equalizable_layer(factors, node) != nullptr) return scale_module(factors.model, node, scales);
  ir::ModuleCall& call = ir::call_of(factors.model, node);
  call.module = operators::scaled_batch_norm(*call.module, scales.input, scales.output);
}

bool equalize_with_first(const ChannelFactors& factors, Node* second) {
  const ir::Weighted* reads = equalizable_layer(factors, second);
  const bool is_known =
      reads != nullptr ? reads->input.mean.defined() : match::is_affine_batch_norm(factors.model, second);
  const auto chain = is_known ? chain_to(factors, second) : std::nullopt;
  if (!chain || channels_given(factors, chain->first) != channels_read(factors, second)) return false;
  const at::Tensor found = find_factors(factors, *chain, reads);
  const std::string& first = ir::call_of(factors.model, chain->first).path;
  if (!found.defined()) {
    report_equalization(factors, second,
                        fmt::format("not equalized with '{}': it would not lower the error", first));
    return false;
  }
  report_equalization(factors, second, fmt::format("equalized with '{}'", first));
  scale(factors, chain->first, {.output = found});
  scale(factors, second, {.input = found});
  return true;
}

}  // namespace

bool equalize_across_layers(Model& model, const PassContext& context) {
  return multiply_each(model, context, equalize_with_first);
}

}  // namespace tsq::passes
