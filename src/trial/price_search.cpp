// Which price of noise reaches a goal. Noise falls as the price rises, so that predictions say which
// prices are worth a trial; each trial says how far off they are.

#include "trial/price_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "ir/analysis.h"
#include "operators/roundings.h"
#include "pipeline/decided_plan.h"
#include "pipeline/float_layers.h"

namespace tsq::detail {
namespace {

/// Of noise, as shares of the time of the fastest plan: for less nobody does anything, for more nobody wants
/// int8.
constexpr double kLowest = 1e-6;
constexpr double kHighest = 1e9;
constexpr double kSamePrice = 1.05;
constexpr std::size_t kMostTrials = 8;
/// Of cheaper plans than one that reaches the goal.
constexpr std::size_t kMostMissed = 2;
/// A goal that is missed by little is aimed at by so many decibels more.
constexpr double kLeastStep = 1;
/// Where a score is in no decibels, nobody knows how far away a goal is.
constexpr double kFirstStep = 3;

/// A price, and its plan.
struct Priced {
  double price{};     ///< PassContext::noise_price
  double decibels{};  ///< that the plan is predicted to have
  Plan plan{};

  /// What a decibel is worth there, as a share of the time.
  [[nodiscard]] double decibel_price() const {
    return price * plan.prediction->noise * std::log(10) / 10 / (plan.prediction->seconds * 1e9);
  }
};

class PriceSearch {
 public:
  PriceSearch(const Prepared& prepared, const BackendConfig& backend, const AccuracyGoal& goal,
              const GoalOptions& options)
      : prepared_(prepared), backend_(backend), goal_(goal), options_(options) {}

  std::optional<GoalSearch> run() {
    const auto fastest = at(0);
    if (!fastest) return std::nullopt;
    const double nanoseconds = fastest->plan.prediction->seconds * 1e9;
    const auto lowest = at(kLowest * nanoseconds);
    const auto highest = at(kHighest * nanoseconds);
    if (!lowest || !highest) return std::nullopt;
    Priced low = *lowest;
    std::optional<Priced> found;
    double aim = low.decibels;
    double step = kFirstStep;
    while (trials_.size() < kMostTrials) {
      const Priced next = cheapest(low, *highest, aim);
      if (reaches(next)) {
        found = next;
        break;
      }
      if (next.price >= highest->price) return std::nullopt;
      const bool is_known = goal_.error_budget.has_value() && std::isfinite(trials_.back().score);
      aim = next.decibels + (is_known ? std::max(kLeastStep, goal_.at_least - trials_.back().score) : step);
      step *= 2;
      low = next;
    }
    if (found) find_cheaper(low, *found);
    return found ? confirmed(*found, *highest) : std::nullopt;
  }

 private:
  /// Between a price that reaches the goal and one that does not may be something cheaper.
  void find_cheaper(Priced low, Priced& found) {
    std::size_t missed = 0;
    while (missed < kMostMissed && found.price > kSamePrice * low.price) {
      const auto middle = at(std::sqrt(low.price * found.price));
      if (!middle) return;
      const bool is_same = middle->decibels == found.decibels;
      const bool is_untried = middle->decibels > low.decibels && middle->decibels < found.decibels;
      const bool is_enough = is_same || (is_untried && reaches(*middle));
      if (is_untried && !is_enough) ++missed;
      (is_enough ? found : low) = *middle;
    }
  }

  /// None where the plan of a price predicts nothing.
  [[nodiscard]] std::optional<Priced> at(double price) const {
    auto plan = plan_at(stage_of(prepared_), price);
    if (!plan || !plan->prediction) return std::nullopt;
    const double noise = std::max(plan->prediction->noise, 1e-12);
    return Priced{.price = price, .decibels = -10 * std::log10(noise), .plan = *std::move(plan)};
  }

  /// The lowest price between two with so many decibels; the higher one where there is none.
  [[nodiscard]] Priced cheapest(Priced low, Priced high, double decibels) const {
    if (low.decibels >= decibels) return low;
    while (high.price > kSamePrice * low.price) {
      const auto middle = at(std::sqrt(low.price * high.price));
      if (!middle) break;
      (middle->decibels >= decibels ? high : low) = *middle;
    }
    return high;
  }

  /// Whether a score reaches the goal.
  bool tell(std::string what, std::size_t float_layers, double score) {
    trials_.push_back({.what = std::move(what),
                       .float_layers = float_layers,
                       .score = score,
                       .at_least = goal_.at_least,
                       .reached = score >= goal_.at_least});
    if (options_.on_trial) options_.on_trial(trials_.back());
    return trials_.back().reached;
  }

  /// Whether a model of a price reaches the goal. It is the one found then.
  bool reaches(const Priced& priced) {
    Reference reference =
        convert_to_reference(prepared_, backend_, {.custom = options_.custom, .plan = priced.plan});
    const Lowered lowered = lower(reference, backend_, options_.lowering);
    const double score = goal_.score(lowered);
    std::vector<QuantizedLayer> kept = left_float(lowered.report());
    if (!tell(fmt::format("{:.2g} % of the time for a decibel", 100 * priced.decibel_price()), kept.size(),
              score))
      return false;
    reference_ = std::move(reference);
    kept_ = std::move(kept);
    score_ = score;
    return true;
  }

  /// The layers that the cheapest plan has in int8, and a model has not.
  [[nodiscard]] std::vector<QuantizedLayer> left_float(const Report& report) {
    if (!layers_) {
      layers_ = calibrated(prepared_).layers;
      std::erase_if(*layers_, [&](const QuantizedLayer& layer) { return !is_quantized(report, layer); });
    }
    std::vector<QuantizedLayer> left;
    std::ranges::copy_if(*layers_, std::back_inserter(left),
                         [&](const QuantizedLayer& layer) { return !is_quantized(report, layer); });
    return left;
  }

  /// The model in the way of the result may do worse on other samples: then more is aimed at.
  std::optional<GoalSearch> confirmed(Priced found, const Priced& highest) {
    while (options_.confirm_plan) {
      const ScoreAnew anew = options_.confirm_plan(found.plan);
      if (anew.is_all_float) kept_ = *layers_;
      score_ = anew.score;
      if (tell("made anew", kept_.size(), score_)) break;
      const bool is_known = goal_.error_budget && std::isfinite(score_);
      double missing = is_known ? std::max(kLeastStep, goal_.at_least - score_) : kFirstStep;
      do {
        if (found.price >= highest.price || trials_.size() >= 2 * kMostTrials) return std::nullopt;
        found = cheapest(found, highest, found.decibels + missing);
        missing = kLeastStep;
      } while (!reaches(found));
    }
    return GoalSearch{.reached = true,
                      .reference = std::move(reference_),
                      .kept = kept_,
                      .mapping = keep_float(stage_of(prepared_).mapping, kept_),
                      .decibel_price = found.decibel_price(),
                      .score = score_,
                      .trials = trials_};
  }

  const Prepared& prepared_;
  const BackendConfig& backend_;
  const AccuracyGoal& goal_;
  const GoalOptions& options_;
  std::optional<std::vector<QuantizedLayer>> layers_{};  ///< in int8 at the lowest price
  std::vector<GoalTrial> trials_{};
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
  return PriceSearch(prepared, backend, goal, options).run();
}

}  // namespace tsq::detail
