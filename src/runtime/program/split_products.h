#pragma once

#include "runtime/program/resolve.h"

namespace tsq::runtime {

/// Where every reader of a linear layer takes some of its columns, perhaps after these have been divided into
/// heads and permuted, each gets a layer of its own, with a part of the weights: it can be rounded by itself,
/// and oneDNN's fast products of matrices read heads of attention, but not with gaps between rows. The parts
/// take as long as the whole.
void split_products(ResolvedModel& resolved);

}  // namespace tsq::runtime
