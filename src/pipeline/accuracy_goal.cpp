// The fewest, cheapest float layers that reach a goal.

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <tsq/error.h>
#include <tsq/sensitivity.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>

#include "pipeline/engine.h"
#include "pipeline/ranking.h"

namespace tsq {
namespace {

using detail::Calibrated;
using detail::FloatOutputs;
using torch::jit::Module;
using Clock = std::chrono::steady_clock;
using Indices = std::vector<std::size_t>;

double time_of(Module& module, const Sample& sample) {
  const at::NoGradGuard no_grad;
  Sample copy = detail::copy_of(sample);
  const Clock::time_point begin = Clock::now();
  module.get_method("forward")(std::move(copy));
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// Least times of the models, which take turns. LibTorch specialises a model for its first samples.
std::vector<double> least_times(std::vector<Module> models, const Sample& sample, int most_rounds) {
  constexpr int kWarmUp = 3;
  constexpr double kEnough = 1.0;  // seconds
  std::vector<double> least(models.size(), std::numeric_limits<double>::infinity());
  double spent = 0;
  for (int round = 0; round < kWarmUp + most_rounds && (round <= kWarmUp || spent < kEnough); ++round) {
    for (std::size_t i = 0; i < models.size(); ++i) {
      const double seconds = time_of(models[i], sample);
      spent += seconds;
      if (round >= kWarmUp) least[i] = std::min(least[i], seconds);
    }
  }
  return least;
}

/// Tries sets of float layers, and keeps the best.
class Search {
 public:
  Search(const Prepared& prepared, const BackendConfig& backend, const AccuracyGoal& goal,
         std::span<const Sample> samples, const GoalOptions& options)
      : prepared_(prepared),
        model_(detail::calibrated(prepared)),
        backend_(backend),
        goal_(goal),
        samples_(samples),
        options_(options) {}

  GoalSearch run() {
    const bool is_reached = attempt("all int8", {}) || reach();
    GoalSearch result{.reached = is_reached, .mapping = model_.stage.mapping, .trials = trials_};
    if (!is_reached) {
      const auto best = std::ranges::max_element(trials_, {}, &GoalTrial::score);
      result.score = best->score;
      return result;
    }
    result.reference = found_->reference;
    for (const std::size_t layer : found_->kept) result.kept.push_back(model_.layers[layer]);
    result.mapping = keep_float(model_.stage.mapping, result.kept);
    result.score = found_->score;
    time(result);
    return result;
  }

 private:
  struct Found {
    Indices kept;
    Reference reference;
    Module module;
    double score;
  };

  /// Whether the goal holds with the `kept` layers in float; then it is the best so far.
  bool attempt(const std::string& what, Indices kept) {
    Reference reference =
        detail::with_float_nodes(model_, backend_, detail::float_nodes(model_, kept), options_.custom);
    Module module = lower(reference, backend_, nullptr, options_.lowering);
    GoalTrial trial{.what = what, .float_layers = kept.size(), .score = goal_.score(module)};
    trial.reached = trial.score >= goal_.at_least;
    constexpr int kRounds = 10;
    trial.seconds = least_times({module}, samples_.front(), kRounds).front();
    trials_.push_back(trial);
    if (options_.on_trial) options_.on_trial(trial);
    if (trials_.size() == 1) int8_ = module;
    if (trial.reached) found_ = {std::move(kept), std::move(reference), std::move(module), trial.score};
    return trial.reached;
  }

  bool reach() {
    Indices all(model_.layers.size());
    std::iota(all.begin(), all.end(), std::size_t{0});
    if (all.empty() || !attempt("all float", all)) return false;
    const Indices order = ranked();
    give_back(fewest_of(order));
    return true;
  }

  Indices ranked() {
    const FloatOutputs wanted(prepared_.stage()->float_model,
                              detail::spread(samples_, options_.ranking_samples));
    detail::measure_layers(prepared_, samples_.front(), model_.layers);
    std::size_t done = 0;
    return detail::rank_layers(model_, backend_, wanted, options_.lowering,
                               [&] {
                                 if (options_.on_ranking) options_.on_ranking(++done, model_.layers.size());
                               })
        .order;
  }

  /// The fewest of the most costly layers that reach the goal: none are too few, all are enough.
  Indices fewest_of(const Indices& order) {
    std::size_t too_few = 0;
    std::size_t enough = order.size();
    while (enough - too_few > 1) {
      const bool has_bound = enough < order.size();
      const std::size_t next =
          has_bound ? (too_few + enough) / 2 : std::min(std::max<std::size_t>(1, 2 * too_few), enough - 1);
      const auto first = order.begin();
      const std::string what = next == 1 ? fmt::format("{} float", model_.layers[order.front()].to_text())
                                         : fmt::format("the {} most costly layers float", next);
      if (attempt(what, Indices(first, first + static_cast<std::ptrdiff_t>(next)))) {
        enough = next;
      } else {
        too_few = next;
      }
    }
    return {order.begin(), order.begin() + static_cast<std::ptrdiff_t>(enough)};
  }

  /// Layers that need not be float after all, those first that int8 makes faster most. The last of `kept` is
  /// needed: without it the goal was missed.
  void give_back(Indices kept) {
    Indices candidates(kept.begin(), kept.end() - 1);
    std::ranges::stable_sort(candidates, [&](std::size_t a, std::size_t b) {
      return model_.layers[a].seconds.value_or(0) > model_.layers[b].seconds.value_or(0);
    });
    for (const std::size_t layer : candidates) {
      Indices fewer = kept;
      std::erase(fewer, layer);
      const std::string what = fmt::format("{} back in int8", model_.layers[layer].to_text());
      if (attempt(what, fewer)) kept = std::move(fewer);
    }
  }

  void time(GoalSearch& result) const {
    constexpr int kRounds = 30;
    Module as_float = prepared_.stage()->float_model.deepcopy();
    as_float.eval();
    const std::vector<double> times =
        least_times({as_float, int8_, found_->module}, samples_.front(), kRounds);
    result.float_seconds = times[0];
    result.int8_seconds = times[1];
    result.seconds = times[2];
  }

  const Prepared& prepared_;
  Calibrated model_;
  const BackendConfig& backend_;
  const AccuracyGoal& goal_;
  std::span<const Sample> samples_;
  const GoalOptions& options_;
  std::vector<GoalTrial> trials_{};
  std::optional<Found> found_{};
  Module int8_{};
};

nlohmann::json finite_or_null(double value) {
  return std::isfinite(value) ? nlohmann::json(value) : nlohmann::json(nullptr);
}

}  // namespace

AccuracyGoal sqnr_goal(const Prepared& prepared, std::span<const Sample> samples, double db) {
  const auto wanted = std::make_shared<const FloatOutputs>(
      prepared.stage()->float_model, std::vector<Sample>(samples.begin(), samples.end()));
  return {.measure = "SQNR in dB", .at_least = db, .score = [wanted](const Module& module) {
            return detail::sqnr_of(wanted->compare(module).whole);
          }};
}

AccuracyGoal agreement_goal(const Prepared& prepared, std::span<const Sample> samples, double fraction) {
  const auto wanted = std::make_shared<const FloatOutputs>(
      prepared.stage()->float_model, std::vector<Sample>(samples.begin(), samples.end()));
  const auto score = [wanted](const Module& module) {
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
                     {"reached", trial.reached},
                     {"seconds", trial.seconds}});
  }
  nlohmann::json layers = nlohmann::json::array();
  for (const QuantizedLayer& layer : kept) layers.push_back(layer.to_json());
  return {{"reached", reached},
          {"score", finite_or_null(score)},
          {"kept_float", std::move(layers)},
          {"trials", std::move(tried)},
          {"latency_seconds", {{"float", float_seconds}, {"int8", int8_seconds}, {"found", seconds}}},
          {"qconfig_mapping", mapping.to_dict()}};
}

}  // namespace tsq
