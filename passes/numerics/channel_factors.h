#pragma once

#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <unordered_set>

#include "ir/model.h"
#include "operators/weighted.h"
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

/// Empty where the recipe multiplies no channels.
std::optional<ChannelFactors> channel_factors(ir::Model& model, const PassContext& context);

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
/// range; infinite where it was always zero.
at::Tensor headroom(const ir::ChannelStatistics& channels, const ObservedRange& range, double margin);
/// The same at least 1, and 1 where it is infinite.
at::Tensor as_factors(const at::Tensor& headroom);
/// as_factors(headroom(…)).
at::Tensor room(const ir::ChannelStatistics& channels, const ObservedRange& range, double margin);

/// What rounding adds to the squares of the outputs of a layer or batch norm, as far as it depends on the
/// factors by which the channels of its input are multiplied.
class ExpectedError {
 public:
  /// `step`: of the rounded input.
  ExpectedError(const ir::Weighted& layer, double step);
  /// Its weights are not rounded.
  ExpectedError(const operators::BatchNorm& bn, const at::Tensor& mean_square, double step);

  double operator()(const at::Tensor& factors) const;
  /// `largest`, less where a channel's rounding then is a negligible part of all that is left: a channel that
  /// hardly showed in the calibration data has no use of a factor, and may be larger elsewhere.
  [[nodiscard]] at::Tensor useful(const at::Tensor& largest) const;

 private:
  at::Tensor weights_;        // [groups, outputs, inputs, taps]
  at::Tensor mean_square_;    // [groups, 1, inputs]
  at::Tensor of_activation_;  // what rounding can add to it
  bool rounds_weights_{true};
};

/// Factors between 1 and `largest`, from the weakest to the strongest, and none above `useful`.
void for_each_strength(const at::Tensor& largest, const at::Tensor& useful,
                       const std::function<void(const at::Tensor& factors)>& try_factors);

/// The factors between 1 and `largest` on a layer's input with the least expected error; undefined when none
/// has less than this share of the error without.
at::Tensor best_factors(const ir::Weighted& layer, const at::Tensor& largest, double step, double share);

}  // namespace tsq::passes
