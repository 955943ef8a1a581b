#pragma once

#include <string_view>

#include "ir/graph_module.h"

namespace tsq::passes {

/// The type of the calls by which values change their dtype at the model's inputs and outputs. Its only
/// constant names the dtypes that they stand for.
inline constexpr std::string_view kCastType = "tsq.Cast";

/// Layers in half, bfloat16 or double precision, which no kernel quantizes, compute in float between casts;
/// so does everything else in these dtypes. Inputs and outputs keep the dtypes that they have in the model.
/// A model without such layers stays as it is.
///   y = conv(x)   →   y = half(conv(float(x)))
/// Throws Error(Unsupported) for an input or output that cannot be cast, an object of a class for example.
void compute_in_float(ir::GraphModule& gm);

}  // namespace tsq::passes
