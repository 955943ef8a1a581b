#pragma once

#include "runtime/program/program.h"

namespace tsq::runtime {

/// The model as oneDNN's kernels can run it. Without `exact_sums`, operations whose int8 sums could saturate
/// compute in float, between conversions and with float weights: depthwise convolutions add no pairs, and
/// operations that are `bounded` cannot saturate. So do products of int8 and float numbers. No kernel rounds
/// the result of float weights, and no view changes a dtype: a convert does.
Model legalized(const Model& model, bool exact_sums);

}  // namespace tsq::runtime
