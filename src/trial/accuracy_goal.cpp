// Which layers stay float so that a goal is reached: those that cost most, found in few runs.
//   all layers → halves → … : each group is int8 alone, and what it adds to the output's error is measured.
//   Errors of groups add up, so that the groups that an error budget allows are known without trying all
//   sets.

#include <fmt/format.h>
#include <tsq/error.h>
#include <tsq/sensitivity.h>
#include <tsq/trial.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

#include "pipeline/engine.h"
#include "trial/layer_groups.h"
#include "trial/referee.h"

namespace tsq {
namespace {

using detail::Candidates;
using detail::Indices;
using detail::LayerGroup;
using detail::LayerGroups;
using detail::Made;
using detail::Referee;

constexpr double kNone = -std::numeric_limits<double>::infinity();

double pooled_db(const Trial& trial) {
  if (trial.fault) return kNone;
  return trial.sqnr_db.value_or(std::numeric_limits<double>::infinity());
}

/// Power of the error over power of the output.
double error_share(double db) { return std::pow(10, -db / 10); }

class Search {
 public:
  Search(const Prepared& prepared, const BackendConfig& backend, const AccuracyGoal& goal,
         std::span<const Sample> samples, const GoalOptions& options)
      : candidates_(prepared, backend, options.custom, options.lowering),
        prepared_(prepared),
        goal_(goal),
        samples_(samples),
        options_(options) {}

  GoalSearch run() {
    GoalSearch result{.mapping = prepared_.stage()->mapping};
    const bool is_reached = attempt("all int8", {}) || reach(result);
    result.reached = is_reached;
    result.trials = trials_;
    if (!is_reached) {
      result.score = std::ranges::max_element(trials_, {}, &GoalTrial::score)->score;
      return result;
    }
    result.reference = found_->reference;
    result.kept = candidates_.layers(kept_);
    result.mapping = keep_float(result.mapping, result.kept);
    result.score = score_;
    return result;
  }

 private:
  /// Whether the goal holds with the `kept` layers in float; then it is the best so far.
  bool attempt(const std::string& what, const Indices& kept) {
    Made made = candidates_.make(kept);
    GoalTrial trial{.what = what, .float_layers = kept.size(), .score = goal_.score(made.module)};
    trial.reached = trial.score >= goal_.at_least;
    trials_.push_back(trial);
    if (options_.on_trial) options_.on_trial(trial);
    if (!trial.reached) return false;
    kept_ = kept;
    score_ = trial.score;
    found_ = std::move(made);
    return true;
  }

  Indices all() const {
    Indices indices(candidates_.size());
    std::iota(indices.begin(), indices.end(), std::size_t{0});
    return indices;
  }

  bool reach(GoalSearch& result) {
    if (candidates_.size() == 0 || !attempt("all float", all())) return false;
    candidates_.count_work(samples_.front());
    const Referee referee(prepared_.stage()->float_model, detail::spread(samples_, options_.ranking_samples));
    LayerGroups groups(candidates_, [&](std::size_t first, std::size_t last) {
      if (options_.on_ranking) options_.on_ranking(++ranked_, kMostRuns);
      return error_of(referee, first, last);
    });
    approach(groups);
    // What a measure of one's own looks at, errors of the whole output do not tell.
    if (!goal_.error_budget) give_back(groups);
    result.runs = groups.runs();
    return true;
  }

  /// The error that layers [first, last) add by themselves.
  double error_of(const Referee& referee, std::size_t first, std::size_t last) const {
    Indices others;
    for (std::size_t layer = 0; layer < candidates_.size(); ++layer) {
      if (layer < first || layer >= last) others.push_back(layer);
    }
    const Trial trial = referee.judge(candidates_.make(others).module);
    if (trial.fault) return std::numeric_limits<double>::infinity();
    return trial.sqnr_db ? error_share(*trial.sqnr_db) : 0;
  }

  static std::string float_text(const Indices& kept) {
    return fmt::format("{} layer{} float", kept.size(), kept.size() == 1 ? "" : "s");
  }

  /// Budgets of error from the goal's own downwards until one holds, then between the last two.
  void approach(LayerGroups& groups) {
    constexpr int kMostHalvings = 6;
    constexpr int kMostBisections = 2;
    double too_much = std::numeric_limits<double>::infinity();
    double budget = goal_.error_budget.value_or(total_error(groups) / 2);
    for (int i = 0; i < kMostHalvings && !holds(groups, budget); ++i, budget /= 2) too_much = budget;
    double enough = budget;
    for (int i = 0; i < kMostBisections && std::isfinite(too_much); ++i) {
      const double middle = std::sqrt(enough * too_much);
      (holds(groups, middle) ? enough : too_much) = middle;
    }
  }

  /// Whether the goal holds with what the budget leaves in float. All in float holds.
  bool holds(LayerGroups& groups, double budget) {
    const Indices kept = within(groups, budget);
    if (kept.size() == candidates_.size()) return true;
    if (const auto known = tried_.find(kept); known != tried_.end()) return known->second;
    const bool holds = attempt(float_text(kept), kept);
    tried_.emplace(kept, holds);
    return holds;
  }

  /// Groups that need not be float after all, those with the most work first.
  void give_back(const LayerGroups& groups) {
    constexpr std::size_t kMostTrials = 8;
    std::vector<LayerGroup> sorted(groups.groups());
    std::ranges::stable_sort(sorted, std::ranges::greater(), &LayerGroup::work);
    std::size_t trials = 0;
    for (const LayerGroup& each : sorted) {
      Indices fewer = kept_;
      std::erase_if(fewer, [&](std::size_t layer) { return layer >= each.first && layer < each.last; });
      if (fewer.size() == kept_.size() || fewer.empty()) continue;
      if (trials++ == kMostTrials) return;
      attempt(float_text(fewer), fewer);
    }
  }

  static double total_error(const LayerGroups& groups) {
    double total = 0;
    for (const LayerGroup& each : groups.groups()) total += std::isfinite(each.measured) ? each.measured : 1;
    return total;
  }

  /// What stays float when the errors of the rest add up to `budget` at most. Groups that do not fit are
  /// split as long as runs are left.
  Indices within(LayerGroups& groups, double budget) const {
    while (true) {
      const double limit = affordable(groups, budget);
      const auto fits = [&](const LayerGroup& each) { return each.measured <= limit * each.work; };
      if (groups.runs() + 2 > kMostRuns || !groups.split([&](const LayerGroup& each) { return !fits(each); }))
        return groups.others(fits);
    }
  }

  /// The largest error for a unit of work with which the groups at or below it stay in the budget.
  static double affordable(const LayerGroups& groups, double budget) {
    std::vector<LayerGroup> sorted(groups.groups());
    std::ranges::sort(sorted, {}, [](const LayerGroup& each) { return each.measured / each.work; });
    double limit = -1;
    double sum = 0;
    for (const LayerGroup& each : sorted) {
      sum += each.measured;
      if (!(sum <= budget)) break;
      limit = each.measured / each.work;
    }
    return limit;
  }

  static constexpr std::size_t kMostRuns = 32;

  Candidates candidates_;
  const Prepared& prepared_;
  const AccuracyGoal& goal_;
  std::span<const Sample> samples_;
  const GoalOptions& options_;
  std::vector<GoalTrial> trials_{};
  std::size_t ranked_{0};
  std::map<Indices, bool> tried_{};
  Indices kept_{};
  double score_{0};
  std::optional<Made> found_{};
};

nlohmann::json finite_or_null(double value) {
  return std::isfinite(value) ? nlohmann::json(value) : nlohmann::json(nullptr);
}

}  // namespace

AccuracyGoal sqnr_goal(const Prepared& prepared, std::span<const Sample> samples, double db,
                       std::span<const Sample> calibrated) {
  constexpr std::size_t kForTheSpread = 16;
  const torch::jit::Module& model = prepared.stage()->float_model;
  const auto unseen =
      std::make_shared<const Referee>(model, std::vector<Sample>(samples.begin(), samples.end()));
  const auto seen = std::make_shared<const Referee>(model, detail::spread(calibrated, kForTheSpread));
  const auto score = [unseen, seen, db,
                      backend = prepared.stage()->backend](const torch::jit::Module& module) {
    const EngineGuard engine(backend);
    const Trial trial = unseen->judge(module);
    const double pooled = pooled_db(trial);
    if (pooled < db) return pooled;
    return std::min(pooled, trial.expected_db(seen->judge(module).sample_db).value_or(pooled));
  };
  return {.measure = "SQNR in dB", .at_least = db, .score = score, .error_budget = error_share(db)};
}

AccuracyGoal agreement_goal(const Prepared& prepared, std::span<const Sample> samples, double fraction) {
  const auto wanted = std::make_shared<const detail::FloatOutputs>(
      prepared.stage()->float_model, std::vector<Sample>(samples.begin(), samples.end()));
  const auto score = [wanted](const torch::jit::Module& module) {
    std::optional<double> least;
    for (const detail::Agreement& output : wanted->compare(module).outputs) {
      if (const auto top1 = output.top1()) least = std::min(least.value_or(1), *top1);
    }
    if (least) return *least;
    throw Error(ErrorCode::BadModel,
                "no output of the model is a float matrix of rows to choose the largest number from",
                "give the goal as an SQNR or by a program");
  };
  return {.measure = "top-1 agreement", .at_least = fraction, .score = score};
}

GoalSearch reach_goal(const Prepared& prepared, const BackendConfig& backend, const AccuracyGoal& goal,
                      std::span<const Sample> samples, const GoalOptions& options) {
  if (samples.empty())
    throw Error(ErrorCode::BadData, "there are no samples to judge on", "give at least one");
  const EngineGuard engine(backend, /*must_have_kernels=*/true);
  return Search(prepared, backend, goal, samples, options).run();
}

nlohmann::json GoalSearch::to_json() const {
  nlohmann::json tried = nlohmann::json::array();
  for (const GoalTrial& trial : trials) {
    tried.push_back({{"what", trial.what},
                     {"float_layers", trial.float_layers},
                     {"score", finite_or_null(trial.score)},
                     {"reached", trial.reached}});
  }
  nlohmann::json layers = nlohmann::json::array();
  for (const QuantizedLayer& layer : kept) layers.push_back(layer.to_json());
  return {
      {"reached", reached},         {"score", finite_or_null(score)}, {"kept_float", std::move(layers)},
      {"trials", std::move(tried)}, {"ranking_runs", runs},           {"qconfig_mapping", mapping.to_dict()}};
}

}  // namespace tsq
