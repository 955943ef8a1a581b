// Models along the price of noise, each made and measured.

#include <torch/csrc/jit/api/module.h>
#include <tsq/error.h>
#include <tsq/frontier.h>
#include <tsq/measure_operators.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "backends/kernels/engine.h"
#include "base/callers_exception.h"
#include "trial/latency.h"
#include "trial/priced_plans.h"
#include "trial/referee.h"

namespace tsq {
namespace {

using detail::PricedPlan;
using detail::PricedPlans;

/// With less noise a model is as good as float.
constexpr double kMostDecibels = 60;

/// Plans with different predictions, from the fastest on.
std::vector<PricedPlan> spread_plans(const PricedPlans& plans, std::size_t count) {
  std::vector<PricedPlan> chosen{plans.lowest()};
  const double least = plans.lowest().decibels();
  const double most = std::min(plans.highest().decibels(), kMostDecibels);
  for (std::size_t i = 1; i < count; ++i) {
    const double wanted = least + (most - least) * static_cast<double>(i) / static_cast<double>(count - 1);
    PricedPlan next = plans.with_decibels(chosen.back(), wanted);
    if (next.plan.prediction != chosen.back().plan.prediction) chosen.push_back(std::move(next));
  }
  return chosen;
}

double sqnr_of(const FrontierPoint& point) { return point.trial.sqnr_db.value_or(0); }

/// Those that no other one beats, by rising time.
std::vector<FrontierPoint> unbeaten(std::vector<FrontierPoint> points) {
  std::ranges::stable_sort(points, {}, &FrontierPoint::seconds);
  std::vector<FrontierPoint> kept;
  for (FrontierPoint& point : points) {
    if (kept.empty() || sqnr_of(point) > sqnr_of(kept.back())) kept.push_back(std::move(point));
  }
  return kept;
}

}  // namespace

double FrontierPoint::seconds() const {
  return latency ? latency->float_seconds / latency->ratio : plan.prediction->seconds;
}

nlohmann::json FrontierPoint::to_json() const {
  return {{"predicted", {{"seconds", plan.prediction->seconds}, {"noise", plan.prediction->noise}}},
          {"seconds", seconds()},
          {"latency", latency ? latency->to_json() : nlohmann::json(nullptr)},
          {"bytes", trial.bytes},
          {"int8_macs_share", int8_macs_share},
          {"trial", trial.to_json()},
          {"plan", plan.to_dict()}};
}

std::vector<FrontierPoint> frontier(const Prepared& calibrated, const BackendConfig& backend,
                                    std::span<const Sample> samples, const FrontierOptions& options) {
  if (samples.empty())
    throw Error(ErrorCode::BadData, "there are no samples to try models on", "give at least one");
  const Progress progress = detail::of_caller(options.progress);
  return detail::with_callers_exceptions([&] {
    const at::NoGradGuard no_grad;
    const detail::Stage& stage = detail::stage_of(calibrated);
    const PricedPlans plans = detail::priced_plans(stage);
    const detail::Referee referee(stage.float_model, engine_of(backend),
                                  detail::tried_samples(stage.float_model, samples), {},
                                  detail::TrialExtent::All, options.decisions);
    const std::vector<PricedPlan> chosen = spread_plans(plans, std::max<std::size_t>(options.points, 2));
    std::vector<FrontierPoint> points;
    for (const PricedPlan& each : chosen) {
      Lowered lowered =
          convert(calibrated, backend, {.custom = options.custom, .plan = each.plan}, options.lowering);
      FrontierPoint point{.plan = each.plan, .trial = referee.judge(lowered.module())};
      if (options.times && !point.trial.fault)
        point.latency = compare_latency(stage.float_model, lowered.module(), backend, samples.front(),
                                        detail::kQuickLatency);
      Report report = lowered.report();
      measure_operators(calibrated, samples.front(), 0, report);
      point.int8_macs_share = totals(report).quantized_macs_share();
      if (!point.trial.fault) points.push_back(std::move(point));
      if (progress) progress(static_cast<std::size_t>(&each - chosen.data()) + 1, chosen.size());
    }
    return unbeaten(std::move(points));
  });
}

nlohmann::json frontier_json(std::span<const FrontierPoint> points, const std::string& title) {
  nlohmann::json array = nlohmann::json::array();
  for (const FrontierPoint& point : points) array.push_back(point.to_json());
  return {{"title", title}, {"frontier", std::move(array)}};
}

}  // namespace tsq
