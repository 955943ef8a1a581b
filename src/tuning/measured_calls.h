#pragma once

#include <tsq/tune.h>

#include <vector>

#include "tuning/kernel_call.h"

namespace tsq::tuning {

/// Times of random calls of all kinds of kernels, with each number of threads. All are measured in each of
/// the passes, so that what else the machine does for a while hits few of their times: the median counts.
[[nodiscard]] std::vector<MeasuredCall> measured_calls(const TuneOptions& options);

}  // namespace tsq::tuning
