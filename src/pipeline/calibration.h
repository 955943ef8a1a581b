#pragma once

#include <tsq/quantize.h>

#include <span>

namespace tsq::detail {

/// Runs the prepared model on every sample, as calibrate does, and leaves to convert what calibrate finds
/// with the samples at its end: for a caller that converts in the same process.
void observe_samples(Prepared& prepared, std::span<const Sample> samples, const Progress& progress = {});

}  // namespace tsq::detail
