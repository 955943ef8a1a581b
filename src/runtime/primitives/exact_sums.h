#pragma once

namespace tsq::runtime {

/// Are oneDNN's int8 sums exact here whatever the weights? Tried once, with a convolution and a product whose
/// sums of pairs leave 16 bits: processors without VNNI keep those in 16 bits and saturate.
bool has_exact_int8_sums();

}  // namespace tsq::runtime
