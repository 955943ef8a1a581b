#pragma once

#include <optional>

#include "backends/kernels/float_output_kernels.h"
#include "benchmarks/kernels/cost_cells.h"

/// One function for each measured cell, under its name (see cost_cells.cpp for what each measures).
namespace tsq::benchmarks::measured {

using Number = std::optional<double>;

/// Whether the engine has kernels of convolutions that read bytes and return floats.
inline bool has_pointwise_kernels(const Place& place) {
  return kernels::float_output_kernel(place.engine, "torch.nn.Conv2d", kernels::PostOp::None) != nullptr;
}

Number fbgemm_depthwise_channels(const Place& place);
Number needs_vnni(const Place& place);
Number least_addend_scale(const Place& place);
Number addend_scale_limit(const Place& place);

Number copies_of_signal(const Place& place);

}  // namespace tsq::benchmarks::measured
