#pragma once

#include <torch/csrc/jit/api/module.h>

#include <limits>
#include <span>
#include <unordered_set>

#include "ir/graph_module.h"

/// What the passes share that multiply channels up to the range of their tensor.
namespace tsq::passes {

/// What quantizing a tensor lets through, and how finely.
struct ObservedRange {
  double lowest{-std::numeric_limits<double>::infinity()};
  double highest{std::numeric_limits<double>::infinity()};
  double step{};  ///< 0: not quantized

  void intersect(const ObservedRange& other);
};

/// What an observer found for its tensor as a whole; empty for observers that find no such range, those of
/// smoothing among them.
std::optional<ObservedRange> observed_range(const ir::GraphModule& gm,
                                            std::span<const torch::jit::Module> observers,
                                            const ir::Node* observer);

/// The weights of several calls: their channels cannot be multiplied for one of them.
std::unordered_set<const void*> weights_of_several_calls(const ir::GraphModule& gm);

/// A quantized layer of one input whose weights have a scale a row; null for others.
const ir::Weighted* equalizable_layer(const ir::GraphModule& gm, const ir::Node* node);

/// relu(s · x) is s · relu(x). An upper end would cut what the calibration data did not show of a channel.
bool commutes_with_scaling(const ir::GraphModule& gm, const ir::Node* node);

/// The graph's input, or what an operator computes in float.
bool is_float(const ir::GraphModule& gm, const ir::Value* value);

/// PReLU and LeakyReLU, which commute with scaling as well, but make negative values smaller or larger.
bool is_leaky(const ir::GraphModule& gm, const ir::Node* node);

/// A batch norm with running statistics and parameters of its own.
bool is_batch_norm(const ir::GraphModule& gm, const ir::Node* node);

/// The observer of a layer's output, after clamps that commute with scaling; null where others read the
/// output.
ir::Node* observer_behind(const ir::GraphModule& gm, const ir::Node* layer);

/// Whether float operators alone read what an observer sees.
bool is_read_in_float(const ir::GraphModule& gm, const ir::Node* observer);

/// The largest factor of each channel with which `margin` times what was seen of it stays inside of the
/// range, at least 1.
at::Tensor room(const ir::ChannelStatistics& channels, const ObservedRange& range, double margin);

/// The factors between 1 and `largest` on a layer's input with the least expected error; undefined when none
/// has less than this share of the error without.
at::Tensor best_factors(const ir::Weighted& layer, const at::Tensor& largest, double step, double share);

}  // namespace tsq::passes
