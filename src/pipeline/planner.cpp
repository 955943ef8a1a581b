#include "pipeline/planner.h"

#include "pipeline/run.h"

namespace tsq::detail {

Planner::Planner(const Stage& calibrated)
    : model_(calibrated.model.copy()), context_(context_of(calibrated)) {
  context_.plan.reset();
  context_.noise = known_noise(calibrated);
  run(passes::Step::Settle, model_, context_);
}

Plan Planner::plan(const std::map<std::string, std::string>& float_nodes) const {
  passes::PassContext context = context_;
  context.kept_float.insert(float_nodes.begin(), float_nodes.end());
  return drafted_plan(model_, context);
}

std::optional<Plan> Planner::at(double noise_price) const {
  if (context_.noise == nullptr) return std::nullopt;
  passes::PassContext context = context_;
  context.noise_price = noise_price;
  Plan plan = drafted_plan(model_, context);
  return plan.prediction ? std::optional(std::move(plan)) : std::nullopt;
}

std::shared_ptr<const Plan> decided_plan(const Stage& prepared) {
  if (prepared.plan) return prepared.plan;
  if (prepared.seen.empty() || prepared.trains) return nullptr;
  Plan plan = Planner(prepared).plan();
  for (const auto& [path, child] : prepared.standalone) {
    if (const auto inside = decided_plan(*child)) plan.standalone.emplace(path, *inside);
  }
  return std::make_shared<const Plan>(std::move(plan));
}

}  // namespace tsq::detail
