#pragma once

#include <cstdint>
#include <vector>

#include "observers/histogram_search.h"

namespace tsq {

/// Counts as doubles, and the width of a bin.
struct Bins {
  std::vector<double> counts{};
  double width{};
};
Bins bins_of(const HistogramView& view);

/// The part of the range beyond which, on each side, no more than 100 - percentile percent of the values lie.
/// Zero is not added.
ClippedRange percentile_range(const HistogramView& view, double percentile);

/// The range [-t, t] ∩ [min, max] that loses the least information (Kullback-Leibler divergence) in `levels`
/// steps. Source: S. Migacz, "8-bit Inference with TensorRT" (2017): absolute values are counted, what is
/// above t becomes t, and the values below are spread over as many steps as their side of the range has.
ClippedRange entropy_range(const HistogramView& view, int64_t levels);

}  // namespace tsq
