// Which price of noise is the highest that a time allows. Time rises with the price, so that predictions,
// held against what was measured last, say which prices are worth a trial.

#include "trial/latency_search.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "trial/plan_trials.h"

namespace tsq::detail {
namespace {

constexpr std::size_t kMostTimed = 6;
/// Less of the time that is left is not worth a trial: as little as measuring twice differs.
constexpr double kNear = 0.03;
constexpr double kMilliseconds = 1e3;

class LatencySearch {
 public:
  LatencySearch(const Prepared& prepared, const PricedPlans& plans, const BackendConfig& backend,
                const LatencyLimit& limit, const LatencyTimer& timer, const GoalOptions& options)
      : plans_(plans), limit_(limit), timer_(timer), options_(options), trials_(prepared, backend, options) {}

  GoalSearch run() {
    if (!is_fast_enough(plans_.lowest())) return missed();
    PricedPlan high = plans_.highest();
    bool is_high_possible = true;
    for (std::size_t i = 1; i < kMostTimed && !is_near(); ++i) {
      std::optional<PricedPlan> tried = next(high, is_high_possible);
      if (!tried) break;
      if (is_fast_enough(*tried)) continue;
      high = *std::move(tried);
      is_high_possible = false;
    }
    return confirmed();
  }

 private:
  /// Of those between the one that was found and `high`, which is too slow or `is_high_possible`, the plan
  /// with the least noise that is likely to be fast enough, by what was measured last. Empty: all were timed.
  [[nodiscard]] std::optional<PricedPlan> next(PricedPlan high, bool is_high_possible) const {
    const double allowed = limit_.at_most / units_of_prediction_;
    const auto is_too_slow = [&](const PricedPlan& plan) { return plan.plan.prediction->seconds > allowed; };
    const auto is_found = [&](const PricedPlan& plan) { return is_same(plan, *found_); };
    const auto was_too_slow = [&](const PricedPlan& plan) {
      return !is_high_possible && is_same(plan, high);
    };
    if (is_high_possible && !is_too_slow(high) && !is_found(high)) return high;
    PricedPlan likely = plans_.around(*found_, high, is_too_slow).first;
    PricedPlan low = *found_;
    while (is_found(likely) || was_too_slow(likely)) {
      if (high.price <= kSamePrice * low.price) return std::nullopt;
      likely = plans_.between(low, high);
      (is_found(likely) ? low : high) = likely;
    }
    return likely;
  }

  static bool is_same(const PricedPlan& a, const PricedPlan& b) {
    return a.plan.prediction == b.plan.prediction;
  }

  bool is_fast_enough(const PricedPlan& priced) {
    PlanTrials::Tried tried = trials_.make(priced);
    const LatencyComparison latency = timer_(tried.lowered.module());
    units_of_prediction_ = limit_.of(latency) / priced.plan.prediction->seconds;
    if (!tell(prediction_text(priced), tried.kept.size(), limit_.certain(latency))) return false;
    found_ = priced;
    tried_ = std::move(tried);
    score_ = limit_.certain(latency);
    return true;
  }

  /// Whether hardly any time is left.
  [[nodiscard]] bool is_near() const { return score_ > (1 - kNear) * limit_.at_most; }

  bool tell(std::string what, std::size_t float_layers, double score) {
    return trials_.tell({.what = std::move(what),
                         .float_layers = float_layers,
                         .score = score,
                         .at_least = limit_.at_most,
                         .reached = score <= limit_.at_most});
  }

  /// What is timed once more may be slower: then a faster one is taken.
  GoalSearch confirmed() {
    while (options_.confirm_plan) {
      const ScoreAnew anew = options_.confirm_plan(found_->plan);
      tried_->kept = trials_.kept_anew(anew, std::move(tried_->kept));
      score_ = anew.score;
      if (tell("made anew", tried_->kept.size(), score_)) break;
      if (found_->price <= plans_.lowest().price || trials_.trials().size() >= 2 * kMostTimed)
        return missed();
      if (!is_fast_enough(plans_.between(plans_.lowest(), *found_)) && !is_fast_enough(plans_.lowest()))
        return missed();
    }
    GoalSearch search = trials_.found(*found_, std::move(tried_->reference), std::move(tried_->kept), score_);
    search.lower_is_better = true;
    return search;
  }

  [[nodiscard]] GoalSearch missed() const {
    return {.lower_is_better = true, .score = trials_.trials().front().score, .trials = trials_.trials()};
  }

  const PricedPlans& plans_;
  const LatencyLimit& limit_;
  const LatencyTimer& timer_;
  const GoalOptions& options_;
  PlanTrials trials_;
  double units_of_prediction_{1};  ///< what is limited, by what is predicted, of the last one that was timed
  std::optional<PricedPlan> found_{};
  std::optional<PlanTrials::Tried> tried_{};  ///< that `found_` has made
  double score_{0};
};

}  // namespace

double LatencyLimit::of(const LatencyComparison& latency) const {
  return is_share ? 1 / latency.ratio : kMilliseconds * latency.int8_seconds;
}

double LatencyLimit::certain(const LatencyComparison& latency) const {
  if (!latency.has_interval()) return of(latency);
  return is_share ? 1 / latency.ratio_low : kMilliseconds * latency.float_seconds / latency.ratio_low;
}

GoalSearch reach_latency(const Prepared& prepared, const BackendConfig& backend, const LatencyLimit& limit,
                         const LatencyTimer& timer, const GoalOptions& options) {
  const at::NoGradGuard no_grad;
  const PricedPlans plans = priced_plans(stage_of(prepared));
  return LatencySearch(prepared, plans, backend, limit, timer, options).run();
}

}  // namespace tsq::detail
