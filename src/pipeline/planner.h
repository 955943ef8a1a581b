#pragma once

#include <tsq/plan.h>

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "passes/context/pass_context.h"
#include "pipeline/stage.h"

namespace tsq::detail {

/// Plans of a calibrated model, by what operators take and by what roundings add to the outputs. No model is
/// made for one, and what does not depend on the plan is done once.
class Planner {
 public:
  explicit Planner(const Stage& calibrated);

  /// What is decided with these nodes (Decision::node) in float, too.
  [[nodiscard]] Plan plan(const std::map<std::string, std::string>& float_nodes = {}) const;
  /// The plan with the least time + price · noise (PlanPrediction), in nanoseconds for an error as large as
  /// the outputs. None where noise is not known, or the plan predicts nothing.
  [[nodiscard]] std::optional<Plan> at(double noise_price) const;

  /// That the plans are of.
  [[nodiscard]] const ir::Model& model() const noexcept { return model_; }

 private:
  ir::Model model_;
  passes::PassContext context_;
};

/// What is decided about a calibrated stage, with what is in it; null of one that has seen no data, and of
/// one that trains. Of a stage that has a plan, that plan.
std::shared_ptr<const Plan> decided_plan(const Stage& prepared);

}  // namespace tsq::detail
