// The one loop around the finished model: make it, try it, leave in float what fails or does not pay, again.

#include "trial/finish.h"

#include <ATen/ATen.h>
#include <c10/util/ScopeExit.h>
#include <tsq/error.h>
#include <tsq/measure_operators.h>
#include <tsq/quantize_goal.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "backends/kernels/engine.h"
#include "base/libtorch_error.h"
#include "io/samples.h"
#include "ir/analysis.h"
#include "trial/attempt.h"
#include "trial/gains.h"
#include "trial/latency.h"
#include "trial/layer_groups.h"
#include "trial/leave_out.h"
#include "trial/referee.h"

namespace tsq::detail {
namespace {

using torch::jit::Module;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

bool quantizes_anything(const Report& report) {
  return std::ranges::any_of(report.decisions, &Decision::quantized);
}

/// FX's tables round values that no operator takes in int8, too.
bool rounds_anything(const Module& module) {
  for (const Module& each : module.modules()) {
    for (const auto& method : each.get_methods()) {
      const auto nodes = ir::nodes_in_order(*torch::jit::toGraphFunction(method.function()).graph());
      if (std::ranges::any_of(nodes, [](const ir::Node* node) {
            return std::string_view(node->kind().toUnqualString()).starts_with("quantize_per_");
          }))
        return true;
    }
  }
  return false;
}

std::string_view reason_for(LeftFloatCause cause) {
  switch (cause) {
    case LeftFloatCause::Slower:
      return "the trial left it float: in int8 the model is slower here";
    case LeftFloatCause::Larger:
      return "the trial left it float: in int8 the file is larger";
    case LeftFloatCause::NothingGained:
      return "the trial left it float: in int8 the model is neither faster nor the file smaller";
    case LeftFloatCause::Fault:
      break;
  }
  return "the trial left it float: in int8 the model fails";
}

/// The entries of the mapping that leave these layers float are not the user's. `is_all_float`: it has none.
void tell_of_changes(const std::vector<LeftFloat>& changes, bool is_all_float, Report& report) {
  std::unordered_map<std::string, LeftFloatCause> causes;
  for (const LeftFloat& change : changes) {
    for (const QuantizedLayer& layer : change.layers) {
      for (const std::string& node : layer.nodes) causes.emplace(node, change.cause);
    }
  }
  for (Decision& decision : report.decisions) {
    const auto found = causes.find(decision.node);
    if (decision.quantized || (found == causes.end() && !is_all_float)) continue;
    decision.reason = reason_for(is_all_float ? changes.back().cause : found->second);
    decision.remedy.clear();
  }
}

class Finish {
 public:
  explicit Finish(const FinishTask& task)
      : task_(task),
        referee_(task.model, engine_of(task.backend, /*must_have_kernels=*/task.lowers),
                 tried_samples(task.model, task.samples), tried_samples(task.model, task.beside),
                 task.effort == Effort::High ? TrialExtent::All : TrialExtent::UntilClear, task.decisions,
                 task.known),
        mapping_(task.mapping) {}

  Finished run() {
    prepared_ = task_.calibrated(mapping_);
    Stage& stage = stage_of(*prepared_);
    const bool may_measure = task_.times && !task_.force && !task_.samples.empty();
    if (stage.options.recipe == Recipe::Best && may_measure)
      measure_float_times(*prepared_, task_.samples.front());
    Attempt now = whole();
    budget_ = task_.calibration_seconds + conversion_seconds_;
    if (now.trial.fault && !task_.force) now = without_faults(std::move(now));
    if (!now.made) refuse(now);
    std::optional<LatencyComparison> latency = timed(now);
    if (task_.leaves_what_does_not_pay && !task_.force) now = paying(std::move(now), latency);
    return finished(std::move(now), latency);
  }

 private:
  /// What makes the model slower or larger than float stays float, and what gains nothing. `latency` becomes
  /// that of the result.
  Attempt paying(Attempt now, std::optional<LatencyComparison>& latency) {
    if (now.trial.fault || !can_choose_layers()) return now;
    const auto is_slower = [&] { return latency && latency->is_slower(); };
    const auto leave = [&](LeftFloatCause cause) {
      now = without_what_does_not_pay(std::move(now), cause);
      latency = timed(now);
    };
    const bool searches = task_.effort != Effort::Low;
    if (searches && is_larger(now)) leave(LeftFloatCause::Larger);
    // Without what is slower, the rest may gain something.
    if (searches && (is_slower() || gains_nothing(now, latency))) leave(LeftFloatCause::Slower);
    // What pays in parts may not pay in all, and what was measured was measured with noise.
    const auto cause = [&]() -> std::optional<LeftFloatCause> {
      if (is_larger(now)) return LeftFloatCause::Larger;
      if (is_slower()) return LeftFloatCause::Slower;
      return gains_nothing(now, latency) ? std::optional(LeftFloatCause::NothingGained) : std::nullopt;
    }();
    if (!cause) return now;
    latency.reset();
    return change(now, *cause, candidates().all());
  }

  /// Whether the model is neither faster nor smaller than float. What was measured to find out whether it is
  /// slower is measured again where it does not tell.
  bool gains_nothing(const Attempt& now, std::optional<LatencyComparison>& latency) {
    if (!latency || !has_more_bytes(now, kSmaller) || !latency->is_hardly_faster()) return false;
    if (latency->ratio_high > kFaster) latency = timed(now, {.undecided = kFaster});
    return latency->is_hardly_faster();
  }

  /// Convert and lower with everything in int8 that has not been left float.
  Attempt whole() {
    return attempt(referee_, [&] {
      const auto begin = Clock::now();
      const auto guard = c10::make_scope_exit([&] { conversion_seconds_ = seconds_since(begin); });
      Reference reference = convert_to_reference(*prepared_, task_.backend, task_.convert);
      return task_.lowers ? lowered(std::move(reference), task_.backend, task_.lowering)
                          : unlowered(std::move(reference));
    });
  }

  Candidates& candidates() {
    if (!candidates_) candidates_.emplace(*prepared_, task_.backend, task_.convert.custom, task_.lowering);
    return *candidates_;
  }

  bool is_larger(const Attempt& now) const { return has_more_bytes(now, kLarger); }

  /// Than so many times those of float.
  bool has_more_bytes(const Attempt& now, double times) const {
    return task_.model_bytes > 0 && now.made && quantizes_anything(now.made->report) &&
           static_cast<double>(now.trial.bytes) > times * static_cast<double>(task_.model_bytes);
  }

  std::optional<LatencyComparison> timed(const Attempt& now) {
    return timed(now, task_.effort == Effort::Low ? kQuickLatency : LatencyOptions());
  }

  std::optional<LatencyComparison> timed(const Attempt& now, const LatencyOptions& options) {
    if (!task_.times || task_.samples.empty() || now.trial.fault || !now.made ||
        !quantizes_anything(now.made->report))
      return std::nullopt;
    return compared_on_two(task_.model, now.made->module, options);
  }

  /// On the sample that decides about latency: the first, until another is found to gain less.
  LatencyComparison compared(const Module& one, const Module& other, const LatencyOptions& options) const {
    return compared_on(timed_sample_ != nullptr ? *timed_sample_ : task_.samples.front(), one, other,
                       options);
  }

  LatencyComparison compared_on(const Sample& sample, const Module& one, const Module& other,
                                const LatencyOptions& options) const {
    return task_.timer ? task_.timer(sample, one, other, options)
                       : compare_latency(one, other, task_.backend, sample, options);
  }

  /// Of two samples, the one that gains less.
  LatencyComparison compared_on_two(const Module& one, const Module& other, const LatencyOptions& options) {
    const SampleLatency found = least_gain(
        task_.samples, [&](const Sample& sample) { return compared_on(sample, one, other, options); });
    timed_sample_ = found.sample;
    return found.latency;
  }

  Attempt without_faults(Attempt now) {
    if (!can_choose_layers()) refuse(now);
    const LeftOut left = leave_out_failing(candidates().size(), *now.trial.fault, [&](const Indices& kept) {
      now = attempt(referee_, [&] { return candidates().make(kept); });
      return now.trial.fault;
    });
    return again(now, left.changes(candidates().layers()), left.parts());
  }

  /// Groups of layers that are not faster, or smaller, in int8 by themselves stay float.
  Attempt without_what_does_not_pay(Attempt now, LeftFloatCause cause) {
    constexpr std::size_t kMostRuns = 16;
    if (!task_.samples.empty()) candidates().count_work(task_.samples.front());
    // What these models compute is judged when the chosen one is made; a size shows without running.
    const Referee light(task_.model, engine_of(task_.backend),
                        cause == LeftFloatCause::Larger ? std::vector<Sample>() : spread(task_.samples, 1));
    const Attempt in_float = attempt(light, [&] { return candidates().make(candidates().all()); });
    if (!in_float.made) return now;
    const auto begin = Clock::now();
    LayerGroups groups(candidates(), [&](const Indices& others) {
      const Attempt alone = attempt(light, [&] { return candidates().make(others); });
      return alone.trial.fault ? 0.0 : gain(in_float, alone, cause);
    });
    const auto pays = [](const LayerGroup& each) { return each.measured > 1; };
    const auto has_time = [&] {
      ended_early_ = task_.effort != Effort::High && seconds_since(begin) > budget_ &&
                     std::ranges::any_of(groups.groups(), [&](const LayerGroup& each) {
                       return each.size() > 1 && !pays(each);
                     });
      return !ended_early_;
    };
    while (groups.runs() + 2 <= kMostRuns && has_time() &&
           groups.split([&](const LayerGroup& each) { return !pays(each); })) {
    }
    return change(now, cause, groups.others(pays));
  }

  /// How many times as small a model is as another, or as fast at the most: what the interval cannot tell
  /// stays int8. What is not slower pays by its size.
  double gain(const Attempt& before, const Attempt& after, LeftFloatCause cause) const {
    const double smaller = static_cast<double>(before.trial.bytes) / static_cast<double>(after.trial.bytes);
    if (cause == LeftFloatCause::Larger) return smaller;
    const double faster = compared(before.made->module, after.made->module, kQuickLatency).ratio_high;
    return faster >= kSlower && kSmaller * smaller > 1 ? std::max(faster, smaller) : faster;
  }

  [[nodiscard]] bool can_choose_layers() const {
    return task_.lowers && stage_of(*prepared_).standalone.empty() && !task_.convert.mapping &&
           !task_.convert.plan;
  }

  Attempt change(const Attempt& now, LeftFloatCause cause, const Indices& kept) {
    return again(now, {LeftFloat{.cause = cause, .layers = candidates().layers(kept)}}, kept);
  }

  /// The same calibrated model with a plan that leaves the `kept` layers float, too.
  Attempt again(const Attempt& now, std::vector<LeftFloat> changes, const Indices& kept) {
    if (kept.empty()) return now;
    mapping_ = keep_float(mapping_, candidates().layers(kept));
    std::ranges::move(changes, std::back_inserter(changes_));
    const bool is_all = kept.size() == candidates().size();
    Prepared without = candidates().leaving_float(kept);
    candidates_.reset();
    prepared_ = std::move(without);
    Attempt next = whole();
    // Nothing is quantized then: the user's own model takes its place.
    if (is_all && !next.made) next.made = now.made;
    return next;
  }

  /// Recipe fx has FX's rewrites, a reference its form, and other dtypes are asked for.
  [[nodiscard]] bool can_be_as_it_was() const {
    return task_.leaves_what_does_not_pay && task_.lowers &&
           task_.lowering.float_dtype == c10::ScalarType::Float;
  }

  /// Of a model that is all float: whether its file is larger than the user's, or its layers, rewritten for
  /// int8, are slower than as they were.
  bool costs_more_than_float(const Attempt& all_float) const {
    if (all_float.trial.fault) return false;
    if (task_.model_bytes > 0 && all_float.trial.bytes > task_.model_bytes) return true;
    return task_.times && !task_.samples.empty() &&
           compared(task_.model, all_float.made->module, kQuickLatency).is_slower();
  }

  Finished finished(Attempt now, const std::optional<LatencyComparison>& latency) {
    const bool is_float = !quantizes_anything(now.made->report) && !rounds_anything(now.made->module);
    if (now.trial.fault && !task_.force && !is_float) refuse(now);
    // What is float is the user's own model at the worst.
    const bool is_as_it_was =
        is_float && ((now.trial.fault && !task_.force) || (can_be_as_it_was() && costs_more_than_float(now)));
    if (is_as_it_was && !changes_.empty()) mapping_ = QConfigMapping();
    Finished result{.reference = *std::move(now.made->reference),
                    .module = std::move(now.made->module),
                    .is_float_model = is_float,
                    .report = std::move(now.made->report),
                    .trial = std::move(now.trial),
                    .latency = latency,
                    .mapping = mapping_,
                    .left_float = std::move(changes_),
                    .ended_early = ended_early_};
    tell_of_changes(result.left_float, !result.left_float.empty() && mapping_ == QConfigMapping(),
                    result.report);
    if (latency && !is_float && stage_of(*prepared_).options.recipe == Recipe::Best)
      result.elsewhere = predicted_targets(stage_of(*prepared_), targets_of(task_.backend));
    if (latency && !is_float && task_.effort != Effort::Low)
      result.optimized_latency = beside_optimized(result.module);
    if (!task_.samples.empty()) measure_operators(*prepared_, task_.samples.front(), 0, result.report);
    if (is_as_it_was) {
      result.module = task_.model;
      result.trial = referee_.judge(task_.model);
      if (task_.model_bytes > 0) result.trial.bytes = task_.model_bytes;
    }
    judge_decisions(result);
    return result;
  }

  /// Sixteen samples may hold sixteen decisions, which tell little.
  void judge_decisions(Finished& result) const {
    if (result.is_float_model || task_.samples.size() <= result.trial.samples) return;
    const std::size_t most = QuantizeGoal().samples;
    Referee(task_.model, engine_of(task_.backend, /*must_have_kernels=*/task_.lowers),
            spread(task_.samples, most), {}, TrialExtent::All, task_.decisions, task_.known)
        .judge_decisions(result.module, result.trial);
  }

  /// None where LibTorch cannot freeze the float model.
  [[nodiscard]] std::optional<LatencyComparison> beside_optimized(const Module& module) const {
    try {
      LatencyOptions options = kQuickLatency;
      options.optimizes_first = true;
      return compared(task_.model, module, options);
    } catch (const Error&) {
      throw;
    } catch (const std::exception& error) {
      rethrow_out_of_memory(error);
      return std::nullopt;
    }
  }

  const FinishTask& task_;
  Referee referee_;
  QConfigMapping mapping_;
  std::optional<Prepared> prepared_{};
  std::optional<Candidates> candidates_{};
  double conversion_seconds_{0};
  double budget_{0};  ///< seconds for the search for what does not pay
  bool ended_early_{false};
  const Sample* timed_sample_{nullptr};  ///< null: the first
  std::vector<LeftFloat> changes_{};
};

}  // namespace

void tell_of_goal(const GoalSearch& search, Finished& finished) {
  const std::vector<QuantizedLayer>& layers = search.kept;
  std::unordered_set<std::string> nodes;
  for (const QuantizedLayer& layer : layers) nodes.insert(layer.nodes.begin(), layer.nodes.end());
  for (const LeftFloat& change : finished.left_float) {
    for (const QuantizedLayer& layer : change.layers) {
      for (const std::string& node : layer.nodes) nodes.erase(node);
    }
  }
  for (Decision& decision : finished.report.decisions) {
    if (decision.quantized || !nodes.contains(decision.node)) continue;
    if (!search.decibel_price)  // a plan has the prices
      decision.reason = "the goal's search left it float: in int8 it costs accuracy";
    decision.remedy = "a lower goal";
  }
}

void measure_float_times(Prepared& prepared, const Sample& sample) {
  Stage& stage = stage_of(prepared);
  if (stage.float_times != nullptr || stage.trains) return;
  constexpr std::size_t kRounds = 3;
  Report report = stage.report;
  measure_operators(prepared, sample, kRounds, report);
  std::map<std::string, double> times;
  for (const Decision& decision : report.decisions) {
    if (decision.standalone.empty() && decision.seconds && *decision.seconds > 0)
      times.emplace(decision.node, *decision.seconds * 1e9);
  }
  stage.float_times = std::make_shared<const std::map<std::string, double>>(std::move(times));
}

Finished finish(const FinishTask& task) { return Finish(task).run(); }

}  // namespace tsq::detail
