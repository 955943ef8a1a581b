#pragma once

#include <tsq/sample.h>
#include <tsq/trial.h>

#include <functional>
#include <span>

namespace tsq::detail {

/// For many models, one after the other.
constexpr LatencyOptions kQuickLatency{.undecided = 1, .seconds = 0.7, .longest = 3};

struct SampleLatency {
  const Sample* sample{};
  LatencyComparison latency{};
};

/// What is fast on a short sample may be slow on a long one: of the first and the longest, the one that gains
/// less. There is one or more.
SampleLatency least_gain(std::span<const Sample> samples,
                         const std::function<LatencyComparison(const Sample&)>& compare);

}  // namespace tsq::detail
