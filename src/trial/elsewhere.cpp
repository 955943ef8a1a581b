#include "trial/elsewhere.h"

#include <ATen/Context.h>
#include <fmt/format.h>
#include <tsq/backends.h>

#include <algorithm>
#include <utility>

#include "backends/kernels/engine.h"
#include "base/known_engines.h"
#include "trial/priced_plans.h"

namespace tsq {

std::string to_string(const Target& target) {
  return fmt::format("--backend {}{}", target.engine,
                     target.runtime == LoweringTarget::Fused ? " --target fused" : "");
}

namespace detail {
namespace {

/// As much as trials of equal models on other samples differ.
constexpr double kSameDecibels = 0.5;

Stage for_target(const Stage& calibrated, const Target& target) {
  Stage stage = calibrated;
  stage.options.target = target.runtime;
  stage.backend.set_engine(target.engine);
  return stage;
}

std::optional<PlanPrediction> decided(const Stage& calibrated) {
  return Planner(calibrated).plan().prediction;
}

/// Of the fastest plan with so many decibels.
std::optional<PlanPrediction> with_decibels(const Stage& calibrated, double decibels) {
  const auto plans = PricedPlans::of(calibrated);
  if (!plans) return std::nullopt;
  const PricedPlan found = plans->with_decibels(plans->lowest(), decibels);
  return found.decibels() >= decibels ? found.plan.prediction : std::nullopt;
}

template <typename Predict>
std::vector<TargetPrediction> from_fastest(const Stage& calibrated, std::span<const Target> targets,
                                           const Predict& predict) {
  std::vector<TargetPrediction> found;
  for (const Target& target : targets) {
    if (const std::optional<PlanPrediction> prediction = predict(for_target(calibrated, target)))
      found.push_back({.target = target, .prediction = *prediction});
  }
  std::ranges::stable_sort(found, {}, [](const TargetPrediction& each) { return each.prediction.seconds; });
  return found;
}

}  // namespace

std::vector<TargetPrediction> predicted_targets(const Stage& calibrated, std::span<const Target> targets) {
  return from_fastest(calibrated, targets, decided);
}

std::vector<TargetPrediction> as_accurate_targets(const Stage& calibrated, std::span<const Target> targets) {
  const auto own = decided(calibrated);
  if (!own) return {};
  const double decibels = PricedPlan{.plan = {.prediction = own}}.decibels() - kSameDecibels;
  return from_fastest(calibrated, targets,
                      [&](const Stage& stage) { return with_decibels(stage, decibels); });
}

Target target_of(const Stage& calibrated) {
  return {.engine = std::string(calibrated.backend.engine()), .runtime = calibrated.options.target};
}

std::vector<Target> targets_of(const BackendConfig& backend) {
  std::vector<Target> targets{{.engine = std::string(backend.engine()), .runtime = LoweringTarget::Fused}};
  for (const at::QEngine supported : at::globalContext().supportedQEngines()) {
    const std::string engine = engine_name(supported);
    if (is_known_engine(engine) && is_made_for_this_processor(BackendConfig(backend).set_engine(engine)))
      targets.push_back({.engine = engine});
  }
  return targets;
}

}  // namespace detail
}  // namespace tsq
