#pragma once

#include <tsq/quantize.h>

#include <span>
#include <string>

namespace tsq::detail {

/// Runs the prepared model on every sample, as calibrate does, and leaves to convert what calibrate finds
/// with the samples at its end: for a caller that converts in the same process. Samples of another `method`
/// than forward are that method's arguments; nothing is found with them at the end.
void observe_samples(Prepared& prepared, std::span<const Sample> samples, const Progress& progress = {},
                     const std::string& method = "forward");

}  // namespace tsq::detail
