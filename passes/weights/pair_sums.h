#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "backends/kernels/weight_codes.h"
#include "ir/model.h"
#include "ir/weighted.h"

namespace tsq::passes {

/// Of each output channel of a rounded weight, as kernels::largest_pair_sums of its codes.
at::Tensor largest_pair_sums(const ir::Weighted& weighted, bool is_transposed, kernels::PairSums pairs);

/// How many scales of a weight grew, for a note in the decision about the layer.
void tell_of_larger_scales(ir::Model& model, const ir::Node* layer, int64_t grown, int64_t all);

/// Weights far beyond the codes come back to the last one, as they are computed and may have been trained:
/// larger scales would reach further.
void clip_to_codes(ir::Weighted& weighted);

/// Raises scales until no sum is larger. Returns how many grew. The codes are around zero, with one scale or
/// one for each output.
int64_t widen_scales(ir::Weighted& weighted, bool is_transposed, kernels::PairSums pairs,
                     int64_t largest_sum);

}  // namespace tsq::passes
