#pragma once

#include <tsq/goal_search.h>

#include <optional>
#include <vector>

#include "trial/priced_plans.h"

namespace tsq::detail {

/// Models that plans of a calibrated model make while one is searched for.
class PlanTrials {
 public:
  /// One of them.
  struct Tried {
    Reference reference;
    Lowered lowered;
    std::vector<QuantizedLayer> kept;  ///< layers in float, of those that the first plan has in int8
  };

  PlanTrials(const Prepared& prepared, const BackendConfig& backend, const GoalOptions& options)
      : prepared_(prepared), backend_(backend), options_(options) {}

  [[nodiscard]] Tried make(const PricedPlan& priced);
  /// Keeps a trial, and tells the caller of it. Whether it has reached the goal.
  bool tell(GoalTrial trial);
  [[nodiscard]] const std::vector<GoalTrial>& trials() const noexcept { return trials_; }
  /// Of the model that a plan makes anew: there, int8 may gain nothing.
  [[nodiscard]] std::vector<QuantizedLayer> kept_anew(const ScoreAnew& anew,
                                                      std::vector<QuantizedLayer> kept) const;
  [[nodiscard]] GoalSearch found(const PricedPlan& priced, Reference reference,
                                 std::vector<QuantizedLayer> kept, double score) const;

 private:
  const Prepared& prepared_;
  const BackendConfig& backend_;
  const GoalOptions& options_;
  std::optional<std::vector<QuantizedLayer>> layers_{};  ///< in int8 by the first plan
  std::vector<GoalTrial> trials_{};
};

/// "predicted 1.2 ms, 24.5 dB".
std::string prediction_text(const PricedPlan& priced);

}  // namespace tsq::detail
