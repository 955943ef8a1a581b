#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "ir/graph.h"

namespace tsq::ir {

/// What each channel of a layer's input was over the calibration data; undefined: not observed.
struct ChannelStatistics {
  int64_t axis{-1};  ///< of the channels, counted from the last dimension
  at::Tensor mean{};
  at::Tensor mean_square{};
  at::Tensor min{};
  at::Tensor max{};
  at::Tensor sizes{};  ///< the largest of each dimension, of the tensors with the most dimensions
};

/// Writes what an observer's own tensor was beside the observer, for the passes that choose factors of
/// channels.
inline void set_channel_statistics(Node* observer, const ChannelStatistics& channels) {
  observer->i_(c10::Symbol::attr("tsq_axis"), channels.axis);
  observer->t_(c10::Symbol::attr("tsq_mean_square"), channels.mean_square);
  observer->t_(c10::Symbol::attr("tsq_min"), channels.min);
  observer->t_(c10::Symbol::attr("tsq_max"), channels.max);
}

/// The axis, smallest and largest value and mean square; undefined where nothing was observed.
inline ChannelStatistics channel_statistics(const Node* observer) {
  if (!observer->hasAttribute(c10::Symbol::attr("tsq_min"))) return {};
  return {.axis = observer->i(c10::Symbol::attr("tsq_axis")),
          .mean_square = observer->t(c10::Symbol::attr("tsq_mean_square")),
          .min = observer->t(c10::Symbol::attr("tsq_min")),
          .max = observer->t(c10::Symbol::attr("tsq_max"))};
}

}  // namespace tsq::ir
