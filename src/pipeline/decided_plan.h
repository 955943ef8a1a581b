#pragma once

#include <tsq/plan.h>

#include <memory>
#include <optional>

#include "pipeline/stage.h"

namespace tsq::detail {

/// What the rules decide about a calibrated stage, with what is in it; null of one that has seen no data, and
/// of one that trains. Of a stage that has a plan, that plan.
std::shared_ptr<const Plan> decided_plan(const Stage& prepared);

/// The plan with the least time + price · noise (PlanPrediction), in nanoseconds for an error as large as the
/// outputs. None where noise is not known.
std::optional<Plan> plan_at(const Stage& calibrated, double noise_price);

}  // namespace tsq::detail
