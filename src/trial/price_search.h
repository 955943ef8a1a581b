#pragma once

#include <tsq/goal_search.h>

#include <optional>

namespace tsq::detail {

/// The fastest plan of a calibrated model that reaches a goal, by the price of noise: plans and their
/// noise are predicted, a few are made and tried. None where plans are not chosen by prices, and where none
/// reaches the goal.
std::optional<GoalSearch> reach_goal_by_price(const Prepared& prepared, const BackendConfig& backend,
                                              const AccuracyGoal& goal, const GoalOptions& options);

}  // namespace tsq::detail
