#pragma once

#include <ATen/core/Tensor.h>

#include "ir/channel_statistics.h"

namespace tsq::ir {

/// What calibration has shown of a layer.
struct LayerStatistics {
  ChannelStatistics input{};    ///< of what it reads
  ChannelStatistics output{};   ///< of a convolution that float operators read
  at::Tensor input_products{};  ///< sum of [x 1] [x 1]ᵀ over what a row of the weight meets: [groups,
                                ///< columns + 1, columns + 1]; undefined: not observed
};

}  // namespace tsq::ir
