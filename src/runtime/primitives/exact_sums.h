#pragma once

#include "runtime/program/program.h"

namespace tsq::runtime {

/// Are oneDNN's int8 sums exact here whatever the weights? Tried once, with a convolution and a product whose
/// sums of pairs leave 16 bits: processors without VNNI keep those in 16 bits and saturate.
bool has_exact_int8_sums();

/// The model with every operation whose sums could saturate in float: between conversions, with float
/// weights. Depthwise convolutions add no pairs, and operations that are `bounded` cannot saturate.
Model with_exact_sums(const Model& model);

}  // namespace tsq::runtime
