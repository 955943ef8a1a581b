#pragma once

#include "runtime/program/resolve.h"

namespace tsq::runtime {

/// Where every reader of a linear layer takes some of its columns, each gets a layer of its own, with a part
/// of the weights: oneDNN's fast products of matrices read heads of attention, but not with gaps between
/// rows.
void split_products(ResolvedModel& resolved);

}  // namespace tsq::runtime
