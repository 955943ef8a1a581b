#pragma once

#include <tsq/goal_search.h>
#include <tsq/trial.h>

#include <functional>

namespace tsq::detail {

/// How fast a model has to be.
struct LatencyLimit {
  double at_most{0};
  bool is_share{false};  ///< of the float model's time; otherwise milliseconds

  /// What a comparison with the float model says of it, and of what is certain: the upper end of the
  /// interval.
  [[nodiscard]] double of(const LatencyComparison& latency) const;
  [[nodiscard]] double certain(const LatencyComparison& latency) const;
};

/// Compares the time of a model with that of the float one.
using LatencyTimer = std::function<LatencyComparison(const torch::jit::Module&)>;

/// The plan of a calibrated model with the least noise, by the price of noise, whose model is fast enough: a
/// few are made and timed. `options.confirm_plan` says what the model takes that is made anew. Throws
/// Error(BadConfig) where no plan has a price, and where the fastest model is too slow.
GoalSearch reach_latency(const Prepared& prepared, const BackendConfig& backend, const LatencyLimit& limit,
                         const LatencyTimer& timer, const GoalOptions& options);

}  // namespace tsq::detail
