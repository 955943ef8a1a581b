// Channels that use a small part of their tensor's range are multiplied in the layer that gives them and
// divided in the one that reads them (Nagel et al., "Data-Free Quantization Through Weight Equalization and
// Bias Correction", 2019, section 4.1, with ranges that are observed).
//   a → relu → observer → b   becomes   a (rows · s) → relu → observer → b (columns / s)
// The first layer's rows have a scale each and lose nothing. The tensor's range stays what it was: factors
// only fill it. What a factor costs in the second layer, whose rounding its larger input multiplies, is
// weighed against what it saves.

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "match/equalizable.h"
#include "modules/channel_scales.h"
#include "passes/channel_factors.h"
#include "passes/decision_index.h"
#include "passes/passes.h"

namespace tsq::passes {
namespace {

using ir::GraphModule;
using ir::Node;
using ir::Value;
using torch::jit::Module;

/// Of the error that is expected without factors; a larger share is not worth the change.
constexpr double kNoticeable = 0.99;

/// Two layers with nothing between them that scaling a channel would change.
struct Chain {
  Node* first{};
  ObservedRange range{};  ///< what quantizing between them lets through
};

class Chains {
 public:
  Chains(const GraphModule& gm, std::span<const Module> observers)
      : gm_(gm), observers_(observers), shared_(weights_of_several_calls(gm)) {}

  /// What ends in the layer `second`; empty when nothing does.
  std::optional<Chain> chain_to(const Node* second) const {
    const ir::Weighted* reads = layer(second);
    if (reads == nullptr || !reads->input.mean.defined()) return std::nullopt;
    Chain chain;
    bool behind_clamp = false;
    Value* value = const_cast<Node*>(second)->input(0);
    while (value->uses().size() == 1) {
      Node* node = value->node();
      if (const ir::Weighted* gives = layer(node)) {
        chain.first = node;
        return chain.range.step > 0 && fits(*gives, *reads) ? std::optional(chain) : std::nullopt;
      }
      if (ir::is_observer(node)) {
        const auto range = observed_range(gm_, observers_, node);
        if (behind_clamp || !range) return std::nullopt;
        chain.range.intersect(*range);
        value = node->input(0);
        continue;
      }
      if (!commutes_with_scaling(gm_, node)) return std::nullopt;
      behind_clamp = true;
      value = ir::operands(node).front();
    }
    return std::nullopt;
  }

 private:
  const ir::Weighted* layer(const Node* node) const {
    const ir::Weighted* weighted = equalizable_layer(gm_, node);
    return weighted != nullptr && !shared_.contains(weighted->weight.const_data_ptr()) ? weighted : nullptr;
  }

  static bool fits(const ir::Weighted& gives, const ir::Weighted& reads) {
    const int64_t channels = gives.weight.size(0);
    return channels == reads.weight.size(1) * reads.groups && channels == reads.input.mean.numel() &&
           gives.weight.dim() == reads.weight.dim();
  }

  const GraphModule& gm_;
  std::span<const Module> observers_;
  std::unordered_set<const void*> shared_;
};

}  // namespace

void equalize_across_layers(GraphModule& gm, std::span<const Module> observers, double margin,
                            Report& report) {
  const DecisionIndex decisions(report);
  const Chains chains(gm, observers);
  for (Node* node : ir::nodes_in_order(*gm.graph)) {
    const auto chain = chains.chain_to(node);
    if (!chain) continue;
    const ir::Weighted& second = *ir::weighted_of(ir::call_of(gm, node));
    const at::Tensor factors =
        best_factors(second, room(second.input, chain->range, margin), chain->range.step, kNoticeable);
    Decision* decision = decisions.of(node);
    const std::string& path = ir::call_of(gm, chain->first).path;
    if (decision != nullptr) {
      decision->equalization =
          factors.defined() ? fmt::format("equalized with '{}'", path)
                            : fmt::format("not equalized with '{}': it would not lower the error", path);
    }
    if (!factors.defined()) continue;
    const at::Tensor scale = factors.to(second.weight.scalar_type());
    std::vector<Module> none;
    modules::scale_parameters(gm, none, chain->first, *match::equalizable(gm, chain->first),
                              {.output = scale});
    modules::scale_parameters(gm, none, node, *match::equalizable(gm, node), {.input = scale});
  }
}

}  // namespace tsq::passes
