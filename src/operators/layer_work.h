#pragma once

#include "ir/weighted.h"

/// How much a convolution or linear layer computes, but for the edges of convolutions.
namespace tsq::operators {

/// Multiply-accumulates for each value of the output, and for each of the input.
double products_per_output(const ir::Weighted& layer);
double products_per_input(const ir::Weighted& layer);

}  // namespace tsq::operators
