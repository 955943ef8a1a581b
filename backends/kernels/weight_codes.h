#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "backends/kernels/kernel_limits.h"
#include "ir/weighted.h"

namespace tsq::kernels {

/// The largest sum of two codes that 255 times fits into 16 bits.
constexpr int64_t kLargestPairSum = 128;

/// Whether a weight is rounded to int8 codes around zero, with one scale or one for each output.
[[nodiscard]] bool has_symmetric_codes(const ir::Weighted& weighted, int64_t output_axis);

/// Of each output the largest sum of two codes of one sign that a kernel may add: of neighbours, or of any
/// two. `codes` has the shape of a weight; of a transposed convolution the inputs of each of `groups` meet.
/// Returns [outputs], doubles.
[[nodiscard]] at::Tensor largest_pair_sums(const at::Tensor& codes, int64_t groups, bool is_transposed,
                                           PairSums pairs);

}  // namespace tsq::kernels
