#pragma once

#include "runtime/support.h"

/// Small networks with every kind of block of the large ones, operation by operation as lowering writes them:
/// a layer, its residual sum, its function and its rounding are four.
namespace tsq::runtime::test {

/// Inverted residuals, of which some have a gate for each channel. Images of 3 channels.
Model mobilenet_like();
/// Bottlenecks with and without a projection beside them. Images of 3 channels.
Model resnet_like();
/// Patches, a token in front of them, attention of two heads. Images of 3 channels and 32 x 32.
Model transformer_like();

}  // namespace tsq::runtime::test
