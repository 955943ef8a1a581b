// Which price of noise reaches a goal. Noise falls as the price rises, so that predictions say which
// prices are worth a trial; each trial says how far off they are.

#include "trial/price_search.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "ir/analysis.h"
#include "operators/roundings.h"
#include "trial/plan_trials.h"
#include "trial/priced_plans.h"

namespace tsq::detail {
namespace {

constexpr std::size_t kMostTrials = 8;
/// Of cheaper plans than one that reaches the goal.
constexpr std::size_t kMostMissed = 2;
/// A goal that is missed by little is aimed at by so many decibels more.
constexpr double kLeastStep = 1;
/// Where a score is in no decibels, nobody knows how far away a goal is.
constexpr double kFirstStep = 3;

class PriceSearch {
 public:
  PriceSearch(const Prepared& prepared, const PricedPlans& plans, const BackendConfig& backend,
              const AccuracyGoal& goal, const GoalOptions& options)
      : plans_(plans), goal_(goal), options_(options), trials_(prepared, backend, options) {}

  std::optional<GoalSearch> run() {
    PricedPlan low = plans_.lowest();
    std::optional<PricedPlan> found;
    double aim = low.decibels();
    double step = kFirstStep;
    while (trials_.trials().size() < kMostTrials) {
      const PricedPlan next = plans_.with_decibels(low, aim);
      if (reaches(next)) {
        found = next;
        break;
      }
      if (is_last(next)) return std::nullopt;
      const bool is_known = goal_.error_budget.has_value() && std::isfinite(last_score());
      aim = next.decibels() + (is_known ? std::max(kLeastStep, goal_.at_least - last_score()) : step);
      step *= 2;
      low = next;
    }
    if (found) find_cheaper(low, *found);
    return found ? confirmed(*found) : std::nullopt;
  }

 private:
  /// Between a price that reaches the goal and one that does not may be something cheaper.
  void find_cheaper(PricedPlan low, PricedPlan& found) {
    std::size_t missed = 0;
    while (missed < kMostMissed && found.price > kSamePrice * low.price) {
      PricedPlan middle = plans_.between(low, found);
      const bool is_same = middle.decibels() == found.decibels();
      const bool is_untried = middle.decibels() > low.decibels() && middle.decibels() < found.decibels();
      const bool is_enough = is_same || (is_untried && reaches(middle));
      if (is_untried && !is_enough) ++missed;
      (is_enough ? found : low) = std::move(middle);
    }
  }

  [[nodiscard]] bool is_last(const PricedPlan& plan) const { return plan.price >= plans_.highest().price; }

  /// Whether a score of a model with so many layers in float reaches the goal.
  bool tell(std::string what, std::size_t float_layers, double score) {
    return trials_.tell({.what = std::move(what),
                         .float_layers = float_layers,
                         .score = score,
                         .at_least = goal_.at_least,
                         .reached = score >= goal_.at_least});
  }

  [[nodiscard]] double last_score() const { return trials_.trials().back().score; }

  /// Whether a model of a price reaches the goal. It is the one found then.
  bool reaches(const PricedPlan& priced) {
    PlanTrials::Tried tried = trials_.make(priced);
    const double score = goal_.score(tried.lowered);
    if (!tell(prediction_text(priced), tried.kept.size(), score)) return false;
    reference_ = std::move(tried.reference);
    kept_ = std::move(tried.kept);
    score_ = score;
    return true;
  }

  /// The model in the way of the result may do worse on other samples: then more is aimed at.
  std::optional<GoalSearch> confirmed(PricedPlan found) {
    while (options_.confirm_plan) {
      const ScoreAnew anew = options_.confirm_plan(found.plan);
      kept_ = trials_.kept_anew(anew, std::move(kept_));
      score_ = anew.score;
      if (tell("made anew", kept_.size(), score_)) break;
      const bool is_known = goal_.error_budget && std::isfinite(score_);
      double missing = is_known ? std::max(kLeastStep, goal_.at_least - score_) : kFirstStep;
      do {
        if (is_last(found) || trials_.trials().size() >= 2 * kMostTrials) return std::nullopt;
        found = plans_.with_decibels(found, found.decibels() + missing);
        missing = kLeastStep;
      } while (!reaches(found));
    }
    return trials_.found(found, *std::move(reference_), kept_, score_);
  }

  const PricedPlans& plans_;
  const AccuracyGoal& goal_;
  const GoalOptions& options_;
  PlanTrials trials_;
  std::optional<Reference> reference_{};
  std::vector<QuantizedLayer> kept_{};
  double score_{0};
};

}  // namespace

std::optional<GoalSearch> reach_goal_by_price(const Prepared& prepared, const BackendConfig& backend,
                                              const AccuracyGoal& goal, const GoalOptions& options) {
  if (options.confirm && !options.confirm_plan) return std::nullopt;
  const Stage& stage = stage_of(prepared);
  const bool has_ranges = std::ranges::any_of(
      ir::nodes_in_order(*stage.model.graph),
      [&](const ir::Node* node) { return operators::is_static_rounding(stage.model, node); });
  if (stage.options.recipe != Recipe::Best || stage.trains || !has_ranges) return std::nullopt;
  const at::NoGradGuard no_grad;
  const auto plans = PricedPlans::of(stage);
  return plans ? PriceSearch(prepared, *plans, backend, goal, options).run() : std::nullopt;
}

}  // namespace tsq::detail
