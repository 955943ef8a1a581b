// Which layers stay float so that a goal is reached: those that cost most, found in few runs.
//   all layers → halves → … : each group is int8 alone, and what it adds to the output's error is measured.
//   Errors of groups add up, so that the groups that an error budget allows are known without trying all
//   sets.

#include <fmt/format.h>
#include <tsq/error.h>
#include <tsq/goal_search.h>
#include <tsq/trial.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <utility>

#include "backends/kernels/engine.h"
#include "base/callers_exception.h"
#include "base/json_number.h"
#include "torchscript/kept_state.h"
#include "trial/layer_groups.h"
#include "trial/price_search.h"
#include "trial/referee.h"

namespace tsq {
namespace {

using detail::Candidates;
using detail::Indices;
using detail::LayerGroup;
using detail::LayerGroups;
using detail::Referee;

constexpr double kNone = -std::numeric_limits<double>::infinity();

double pooled_db(const Trial& trial) {
  if (trial.fault) return kNone;
  return trial.sqnr_db.value_or(std::numeric_limits<double>::infinity());
}

/// Of labels; the largest of several outputs.
double lost_share(const Trial& trial) {
  double most = 0;
  for (const OutputTrial& output : trial.outputs) most = std::max(most, 1 - output.decisions.all.share());
  return most;
}

/// Power of the error over power of the output.
double error_share(double db) { return std::pow(10, -db / 10); }

class Search {
 public:
  Search(const Prepared& prepared, const BackendConfig& backend, const AccuracyGoal& goal,
         std::span<const Sample> samples, const GoalOptions& options)
      : engine_(engine_of(backend, /*must_have_kernels=*/true)),
        candidates_(prepared, backend, options.custom, options.lowering),
        prepared_(prepared),
        goal_(goal),
        samples_(samples),
        options_(options) {}

  GoalSearch run() {
    bar_ = goal_.at_least;
    bool is_reached = attempt(candidates_.size() == 0 ? "all float" : "all int8", {}) || reach();
    // A model that is made anew may do worse than the one that the search saw.
    while (is_reached && options_.confirm && !confirmed()) is_reached = step_down();
    GoalSearch result{.reached = is_reached,
                      .mapping = detail::stage_of(prepared_).mapping,
                      .trials = trials_,
                      .runs = groups_ ? groups_->runs() : 0};
    if (!is_reached) {
      result.score = std::ranges::max_element(trials_, {}, &GoalTrial::score)->score;
      return result;
    }
    result.reference = candidates_.reference(kept_);
    result.kept = candidates_.layers(kept_);
    result.mapping = mapping();
    result.score = score_;
    return result;
  }

 private:
  /// A model of the search's mapping, made from the start.
  struct Anew {
    Indices kept{};
    double score{0};
  };
  /// The model with all layers in int8.
  struct Whole {
    std::set<std::size_t> int8{};  ///< the layers that are
    double error{0};
  };

  QConfigMapping mapping() const {
    return keep_float(detail::stage_of(prepared_).mapping, candidates_.layers(kept_));
  }

  void tell(GoalTrial trial) {
    trials_.push_back(trial);
    if (options_.on_trial) options_.on_trial(trial);
  }

  /// Whether what is aimed at holds with the `kept` layers in float; then it is the best so far.
  bool attempt(const std::string& what, const Indices& kept) {
    auto known = scores_.find(kept);
    if (known == scores_.end()) {
      known = scores_.emplace(kept, goal_.score(candidates_.make(kept).module)).first;
      tell({.what = what,
            .float_layers = kept.size(),
            .score = known->second,
            .at_least = bar_,
            .reached = known->second >= bar_});
    }
    if (known->second < bar_) return false;
    kept_ = kept;
    score_ = known->second;
    return true;
  }

  /// Whether the model of the mapping found reaches the goal.
  bool confirmed() {
    if (kept_.size() == candidates_.size() && settled()) return true;
    const double seen = score_;
    make_anew("made anew", options_.confirm);
    if (score_ >= goal_.at_least) return true;
    refused_.insert(kept_);
    if (!best_anew_ || score_ > best_anew_->score) best_anew_ = {.kept = kept_, .score = score_};
    // What it lacks on other samples it has to have more on these: there, models are compared by the same
    // ranges.
    if (std::isfinite(score_)) bar_ = std::max(bar_, seen + goal_.at_least - score_);
    return false;
  }

  /// Whether the best that was made anew may be taken where all float is what is left.
  bool settled() {
    if (!options_.settle || !best_anew_) return false;
    kept_ = std::exchange(best_anew_, std::nullopt)->kept;
    make_anew("made anew, by most samples", options_.settle);
    if (score_ >= goal_.at_least) return true;
    kept_ = candidates_.all();
    return false;
  }

  void make_anew(const std::string& how, const std::function<ScoreAnew(const QConfigMapping&)>& score) {
    const ScoreAnew made = score(mapping());
    score_ = made.score;
    if (made.is_all_float) kept_ = candidates_.all();
    tell({.what = fmt::format("{}, {}", made.is_all_float ? "all float" : float_text(kept_), how),
          .float_layers = kept_.size(),
          .score = score_,
          .at_least = goal_.at_least,
          .reached = score_ >= goal_.at_least});
  }

  /// What reaches the bar and has not been refused; whether there is any.
  bool step_down() {
    if (!groups_) return reach();
    if (kept_.size() == candidates_.size()) return false;
    kept_ = candidates_.all();
    if (++steps_ == kMostSteps) return true;
    approach(budget_);
    if (!refused_.contains(kept_)) take_best_seen();
    // What does not even run when it is made anew lacks nothing that can be measured.
    for (int i = 0; i < kMostHalvings && refused_.contains(kept_); ++i) {
      budget_ /= 2;
      kept_ = within(*groups_, budget_);
    }
    return true;
  }

  /// Of the models that hold by the bar, one that the search has seen may have more work in int8.
  void take_best_seen() {
    for (const auto& [kept, score] : scores_) {
      if (score < bar_ || refused_.contains(kept) || work(kept) >= work(kept_)) continue;
      kept_ = kept;
      score_ = score;
    }
  }

  double work(const Indices& layers) const {
    return std::accumulate(layers.begin(), layers.end(), 0.0,
                           [&](double sum, std::size_t layer) { return sum + candidates_.work(layer); });
  }

  bool reach() {
    if (candidates_.size() == 0 || !attempt("all float", candidates_.all())) return false;
    rank();
    approach(goal_.error_budget.value_or(total_error(*groups_) / 2));
    // What a measure of one's own looks at, errors of the whole output do not tell.
    if (!goal_.error_budget) give_back();
    take_best_seen();
    return true;
  }

  void rank() {
    candidates_.count_work(samples_.front());
    const torch::jit::Module& model = detail::stage_of(prepared_).float_model;
    referee_.emplace(model, engine_, ranking_samples());
    groups_.emplace(candidates_, [&](const Indices& in_float) {
      if (options_.on_ranking) options_.on_ranking(++ranked_, most_runs());
      return error_with(in_float);
    });
  }

  /// The error that the other layers add: by themselves, or, where some of them are int8 only with layers
  /// around them, what the whole has less without them.
  double error_with(const Indices& in_float) {
    const detail::Made alone = candidates_.make(in_float);
    const double error = error_of(alone);
    const Indices others = detail::without(candidates_.all(), in_float);
    const std::set<std::size_t> int8 = candidates_.int8(alone.report);
    const auto is_left_out = [&](std::size_t layer) { return !int8.contains(layer); };
    if (!std::isfinite(error) || std::ranges::none_of(others, is_left_out)) return error;
    const Whole& all = whole();
    const bool needs_others = std::ranges::any_of(
        others, [&](std::size_t layer) { return is_left_out(layer) && all.int8.contains(layer); });
    if (!needs_others || !std::isfinite(all.error)) return error;
    return std::max(error, all.error - error_of(candidates_.make(others)));
  }

  const Whole& whole() {
    if (!whole_) {
      const detail::Made made = candidates_.make({});
      whole_ = {.int8 = candidates_.int8(made.report), .error = error_of(made)};
    }
    return *whole_;
  }

  std::vector<Sample> ranking_samples() const {
    return detail::some_for(torchscript::keeps_state(detail::stage_of(prepared_).float_model), samples_,
                            options_.ranking_samples);
  }

  double error_of(const detail::Made& made) {
    const Trial trial = referee_->judge(made.module);
    if (trial.fault) return std::numeric_limits<double>::infinity();
    if (trial.sqnr_db) return error_share(*trial.sqnr_db);
    if (trial.outputs.empty()) return 0;
    if (!of_labels_)
      of_labels_.emplace(detail::stage_of(prepared_).float_model, engine_, ranking_samples(),
                         std::vector<Sample>(), detail::TrialExtent::All, std::vector<NamedDecisions>());
    return lost_share(of_labels_->judge(made.module));
  }

  static std::string float_text(const Indices& kept) {
    if (kept.empty()) return "all int8";
    return fmt::format("{} layer{} float", kept.size(), kept.size() == 1 ? "" : "s");
  }

  /// Budgets of error from this one downwards until one holds, then between the last two.
  void approach(double budget) {
    constexpr int kMostBisections = 2;
    double too_much = std::numeric_limits<double>::infinity();
    budget_ = budget;
    for (int i = 0; i < kMostHalvings && !holds(budget_); ++i, budget_ /= 2) too_much = budget_;
    for (int i = 0; i < kMostBisections && std::isfinite(too_much); ++i) {
      const double middle = std::sqrt(budget_ * too_much);
      (holds(middle) ? budget_ : too_much) = middle;
    }
  }

  /// Whether the goal holds with what the budget leaves in float. All in float holds.
  bool holds(double budget) {
    const Indices kept = within(*groups_, budget);
    return kept.size() == candidates_.size() || attempt(float_text(kept), kept);
  }

  /// Groups that need not be float after all, those with the most work first.
  void give_back() {
    constexpr std::size_t kMostTrials = 8;
    std::vector<LayerGroup> sorted(groups_->groups());
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
      const std::set<std::size_t> chosen = affordable(groups, budget);
      const auto fits = [&](const LayerGroup& each) { return chosen.contains(each.first); };
      if (groups.runs() + 2 > most_runs() ||
          !groups.split([&](const LayerGroup& each) { return !fits(each); }))
        return groups.others(fits);
    }
  }

  /// Groups, by their first layer, whose errors add up to the budget at most: those with the least error for
  /// their work first.
  static std::set<std::size_t> affordable(const LayerGroups& groups, double budget) {
    std::vector<LayerGroup> sorted(groups.groups());
    std::ranges::sort(sorted, {}, [](const LayerGroup& each) { return each.measured / each.work; });
    std::set<std::size_t> chosen;
    double sum = 0;
    for (const LayerGroup& each : sorted) {
      if (!(sum + each.measured <= budget)) continue;
      sum += each.measured;
      chosen.insert(each.first);
    }
    return chosen;
  }

  /// A smaller budget asks for a closer look.
  std::size_t most_runs() const { return 32 + 16 * steps_; }

  static constexpr int kMostHalvings = 6;
  static constexpr std::size_t kMostSteps = 6;

  at::QEngine engine_;
  Candidates candidates_;
  const Prepared& prepared_;
  const AccuracyGoal& goal_;
  std::span<const Sample> samples_;
  const GoalOptions& options_;
  double bar_{0};         ///< a score on these samples with which the goal is likely to be reached anew
  double budget_{0};      ///< of error, of what was found
  std::size_t steps_{0};  ///< down from what did not hold when it was made anew
  std::optional<Anew> best_anew_{};
  std::set<Indices> refused_{};  ///< the float layers of models that did not reach the goal when made anew
  std::optional<Whole> whole_{};
  std::optional<Referee> referee_{};
  std::optional<Referee> of_labels_{};  ///< compares them, where no output has an SQNR
  std::optional<LayerGroups> groups_{};
  std::vector<GoalTrial> trials_{};
  std::size_t ranked_{0};
  std::map<Indices, double> scores_{};
  Indices kept_{};
  double score_{0};
};

}  // namespace

AccuracyGoal sqnr_goal(const Prepared& prepared, std::span<const Sample> samples, double db,
                       std::span<const Sample> calibrated) {
  constexpr std::size_t kForTheSpread = 16;
  const torch::jit::Module& model = detail::stage_of(prepared).float_model;
  const bool keeps_state = torchscript::keeps_state(model);
  const std::vector<Sample> some_seen = detail::some_for(keeps_state, calibrated, kForTheSpread);
  const at::QEngine engine = engine_of(detail::stage_of(prepared).backend);
  const auto unseen = std::make_shared<const Referee>(
      model, engine, std::vector<Sample>(samples.begin(), samples.end()), some_seen);
  const auto seen = std::make_shared<const Referee>(model, engine, some_seen,
                                                    detail::some_for(keeps_state, samples, kForTheSpread));
  const auto score = [unseen, seen, db](const torch::jit::Module& module) {
    Trial trial = unseen->judge(module);
    if (!trial.fault && !trial.sqnr_db && !trial.outputs.empty())
      throw Error(ErrorCode::BadModel, "no output holds floating-point numbers, so that none has an SQNR",
                  "give the goal as --min-agreement (goal.min_agreement)");
    const double pooled = pooled_db(trial);
    if (pooled < db) return pooled;
    trial.calibrated_db = seen->judge(module).sample_db;
    return trial.expected_db().value_or(pooled);
  };
  return {.measure = "SQNR in dB of 19 of 20 samples",
          .at_least = db,
          .score = score,
          .error_budget = error_share(db)};
}

AccuracyGoal agreement_goal(const Prepared& prepared, std::span<const Sample> samples, double fraction,
                            const std::vector<NamedDecisions>& named) {
  const auto referee = std::make_shared<const Referee>(
      detail::stage_of(prepared).float_model, engine_of(detail::stage_of(prepared).backend),
      std::vector<Sample>(samples.begin(), samples.end()), std::vector<Sample>(), detail::TrialExtent::All,
      named);
  const auto score = [referee](const torch::jit::Module& module) {
    const Trial trial = referee->judge(module);
    if (trial.fault) return kNone;
    std::optional<double> least;
    std::string reasons;
    for (const OutputTrial& output : trial.outputs) {
      if (output.decisions.is_judged())
        least = std::min(least.value_or(1), output.decisions.all.share());
      else
        reasons += fmt::format("{}{}: {}", reasons.empty() ? "" : "; ", output.name, output.decisions.reason);
    }
    if (least) return *least;
    throw Error(ErrorCode::BadModel, fmt::format("no output is judged as decisions ({})", reasons),
                "name one by --decisions, or give the goal as an SQNR or by a program");
  };
  return {.measure = "top-1 agreement", .at_least = fraction, .score = score, .of_float = 1};
}

GoalSearch reach_goal(const Prepared& prepared, const BackendConfig& backend, const AccuracyGoal& goal,
                      std::span<const Sample> samples, const GoalOptions& options) {
  if (samples.empty())
    throw Error(ErrorCode::BadData, "there are no samples to judge on", "give at least one");
  AccuracyGoal guarded = goal;
  guarded.score = detail::of_caller(goal.score);
  GoalOptions heard = options;
  heard.confirm = detail::of_caller(options.confirm);
  heard.on_trial = detail::of_caller(options.on_trial);
  heard.on_ranking = detail::of_caller(options.on_ranking);
  heard.confirm_plan = detail::of_caller(options.confirm_plan);
  return detail::with_callers_exceptions([&] {
    std::optional<GoalSearch> by_price = detail::reach_goal_by_price(prepared, backend, guarded, heard);
    return by_price ? *std::move(by_price) : Search(prepared, backend, guarded, samples, heard).run();
  });
}

nlohmann::json GoalSearch::to_json() const {
  nlohmann::json tried = nlohmann::json::array();
  for (const GoalTrial& trial : trials) {
    tried.push_back({{"what", trial.what},
                     {"float_layers", trial.float_layers},
                     {"score", detail::finite_or_null(trial.score)},
                     {"at_least", detail::finite_or_null(trial.at_least)},
                     {"reached", trial.reached}});
  }
  nlohmann::json layers = nlohmann::json::array();
  for (const QuantizedLayer& layer : kept) layers.push_back(layer.to_json());
  nlohmann::json json{{"reached", reached},
                      {"lower_is_better", lower_is_better},
                      {"score", detail::finite_or_null(score)},
                      {"kept_float", std::move(layers)},
                      {"trials", std::move(tried)},
                      {"ranking_runs", runs},
                      {"qconfig_mapping", mapping.to_dict()}};
  if (decibel_price) json["decibel_price"] = *decibel_price;
  return json;
}

}  // namespace tsq
