#pragma once

#include <cstdint>
#include <optional>

#include "ir/weighted.h"

/// How much a convolution or linear layer computes, but for the edges of convolutions.
namespace tsq::operators {

/// Values of the input for each of the output.
double inputs_per_output(const ir::Weighted& layer);
/// Multiply-accumulates for each value of the output, and for each of the input.
double products_per_output(const ir::Weighted& layer);
double products_per_input(const ir::Weighted& layer);

/// Values of the output in a call with an input of the calibrated size; none where no size is known.
std::optional<double> outputs_of_call(const ir::Weighted& layer);
/// Multiply-accumulates of such a call; 0 where no size is known.
int64_t products_of_call(const ir::Weighted& layer);

}  // namespace tsq::operators
