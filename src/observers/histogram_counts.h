#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "observers/compiled_observer.h"

namespace tsq {

/// HistogramObserver's upsample_rate.
inline constexpr int64_t kUpsampleRate = 16;

/// histogram += at::histc(x, bins, lowest, highest), for a dense float32 tensor of fewer than 2^24 values,
/// all of them in a range that is none of one number: the same counts, bit for bit, in a third of the time.
void add_counts(const at::Tensor& x, const Extremes& range, at::Tensor& histogram);

/// The counts of a histogram over `range` in the bins of one over a wider range: _upscale_histogram of
/// HistogramObserver, bit for bit, in a sixth of the time.
at::Tensor widened_counts(const at::Tensor& histogram, const Extremes& range, const Extremes& wider);

}  // namespace tsq
