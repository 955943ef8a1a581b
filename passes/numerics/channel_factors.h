#pragma once

#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <unordered_set>

#include "ir/model.h"
#include "passes/context/pass_context.h"

/// What the passes share that multiply channels up to the range of their tensor.
namespace tsq::passes {

/// A pass at work on a model.
struct ChannelFactors {
  ir::Model& model;
  const PassContext& context;
  double margin{};                                   ///< cross_layer_margin
  std::unordered_set<const void*> shared_weights{};  ///< of several calls, not to be changed for one of them
};

/// Runs `multiply` on every node, in their order; whether it has changed one. Nothing where the recipe
/// multiplies no channels.
bool multiply_each(ir::Model& model, const PassContext& context,
                   const std::function<bool(const ChannelFactors&, ir::Node*)>& multiply);

/// match::equalizable_layer, where no other call has its weight.
const ir::Weighted* equalizable_layer(const ChannelFactors& factors, const ir::Node* node);

/// Decision::equalization of a node.
void report_equalization(const ChannelFactors& factors, const ir::Node* node, std::string text);

/// What quantizing a tensor lets through, and how finely.
struct ObservedRange {
  double lowest{-std::numeric_limits<double>::infinity()};
  double highest{std::numeric_limits<double>::infinity()};
  double step{};  ///< 0: not quantized

  void intersect(const ObservedRange& other);
};

/// What an observer found for its tensor as a whole; empty for observers that find no such range, those of
/// smoothing among them.
std::optional<ObservedRange> observed_range(const ir::Model& model, const ir::Node* observer);

/// The largest factor of each channel with which `margin` times what was seen of it stays inside of the
/// range, at least 1.
at::Tensor room(const ir::ChannelStatistics& channels, const ObservedRange& range, double margin);

/// The factors between 1 and `largest` on a layer's input with the least expected error; undefined when none
/// has less than this share of the error without.
at::Tensor best_factors(const ir::Weighted& layer, const at::Tensor& largest, double step, double share);

}  // namespace tsq::passes
