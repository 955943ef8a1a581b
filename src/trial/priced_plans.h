#pragma once

#include <tsq/plan.h>

#include <concepts>
#include <optional>
#include <utility>

#include "pipeline/planner.h"

namespace tsq::detail {

/// The plan of a price of noise (Planner::at).
struct PricedPlan {
  double price{};
  Plan plan{};  ///< it has a prediction

  /// Of the noise that is predicted.
  [[nodiscard]] double decibels() const;
  /// What a decibel is worth there, as a share of the time.
  [[nodiscard]] double decibel_price() const;
};

/// Prices further apart have other plans, as a rule.
constexpr double kSamePrice = 1.05;

/// The plans of a calibrated model by their prices. As the price rises, the time that is predicted does, and
/// the noise falls.
class PricedPlans {
 public:
  /// None where noise is not known.
  static std::optional<PricedPlans> of(const Stage& calibrated);

  [[nodiscard]] const PricedPlan& fastest() const noexcept { return fastest_; }
  /// Above the price of the fastest plan, and below the next one.
  [[nodiscard]] const PricedPlan& lowest() const noexcept { return lowest_; }
  /// The plan with the least noise.
  [[nodiscard]] const PricedPlan& highest() const noexcept { return highest_; }

  /// The plan of the price in the middle of two.
  [[nodiscard]] PricedPlan between(const PricedPlan& low, const PricedPlan& high) const;
  /// The plan of the least price, from that of `low` on, with so many decibels; the highest where there is
  /// none.
  [[nodiscard]] PricedPlan with_decibels(const PricedPlan& low, double decibels) const;
  /// The highest price from `low` to `high` of whose plan something is false, as it is of `low`, and the
  /// lowest of whose plan it is true, as it is of all higher ones; `high` where there is none.
  template <std::predicate<const PricedPlan&> IsTrue>
  [[nodiscard]] std::pair<PricedPlan, PricedPlan> around(PricedPlan low, PricedPlan high,
                                                         const IsTrue& is_true) const {
    while (high.price > kSamePrice * low.price) {
      PricedPlan middle = between(low, high);
      (is_true(middle) ? high : low) = std::move(middle);
    }
    return {std::move(low), std::move(high)};
  }

 private:
  PricedPlans(Planner planner, PricedPlan fastest, PricedPlan lowest, PricedPlan highest);

  Planner planner_;
  PricedPlan fastest_;
  PricedPlan lowest_;
  PricedPlan highest_;
};

/// Throws Error(BadConfig) where noise is not known.
PricedPlans priced_plans(const Stage& calibrated);

}  // namespace tsq::detail
