#include "trial/priced_plans.h"

#include <tsq/error.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace tsq::detail {
namespace {

/// Of noise, as shares of the time of the fastest plan: for less nobody does anything, for more nobody wants
/// int8.
constexpr double kLowest = 1e-6;
constexpr double kHighest = 1e9;

}  // namespace

double PricedPlan::decibels() const {
  constexpr double kNone = 1e-12;
  return -10 * std::log10(std::max(plan.prediction->noise, kNone));
}

double PricedPlan::decibel_price() const {
  return price * plan.prediction->noise * std::log(10) / 10 / (plan.prediction->seconds * 1e9);
}

PricedPlans::PricedPlans(Planner planner, PricedPlan fastest, PricedPlan lowest, PricedPlan highest)
    : planner_(std::move(planner)),
      fastest_(std::move(fastest)),
      lowest_(std::move(lowest)),
      highest_(std::move(highest)) {}

std::optional<PricedPlans> PricedPlans::of(const Stage& calibrated) {
  Planner planner(calibrated);
  const auto at = [&](double price) -> std::optional<PricedPlan> {
    auto plan = planner.at(price);
    return plan ? std::optional(PricedPlan{.price = price, .plan = *std::move(plan)}) : std::nullopt;
  };
  auto fastest = at(0);
  if (!fastest) return std::nullopt;
  const double nanoseconds = fastest->plan.prediction->seconds * 1e9;
  auto lowest = at(kLowest * nanoseconds);
  auto highest = at(kHighest * nanoseconds);
  if (!lowest || !highest) return std::nullopt;
  return PricedPlans(std::move(planner), *std::move(fastest), *std::move(lowest), *std::move(highest));
}

PricedPlans priced_plans(const Stage& calibrated) {
  auto plans = PricedPlans::of(calibrated);
  if (!plans)
    throw Error(ErrorCode::BadConfig,
                "nobody knows what int8 costs this model's accuracy, so that no time can be traded for it",
                "give calibration data, recipe best and a model with floating-point outputs");
  return *std::move(plans);
}

PricedPlan PricedPlans::with_decibels(const PricedPlan& low, double decibels) const {
  const auto has_enough = [&](const PricedPlan& plan) { return plan.decibels() >= decibels; };
  return has_enough(low) ? low : around(low, highest_, has_enough).second;
}

PricedPlan PricedPlans::between(const PricedPlan& low, const PricedPlan& high) const {
  const double price = std::sqrt(low.price * high.price);
  auto plan = planner_.at(price);
  return {.price = price, .plan = plan ? *std::move(plan) : high.plan};
}

}  // namespace tsq::detail
