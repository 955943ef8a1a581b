// The whole way of a model: prepare, calibrate, convert, lower, try, and again where the trial shows more.

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/serialization/export.h>
#include <tsq/backends.h>
#include <tsq/error.h>
#include <tsq/quantize_model.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <utility>

#include "backends/kernels/engine.h"
#include "base/callers_exception.h"
#include "base/recipe_options.h"
#include "io/libraries.h"
#include "io/samples.h"
#include "pipeline/stage.h"
#include "quantize/goal.h"
#include "quantize/remarks.h"
#include "quantize/sample_sets.h"
#include "quantize/steps.h"
#include "torchscript/kept_state.h"
#include "torchscript/renamed_methods.h"
#include "trial/finish.h"
#include "trial/gains.h"
#include "trial/latency.h"
#include "trial/referee.h"

namespace tsq {
namespace {

using detail::Finished;
using detail::Fold;
using detail::SampleSets;
using detail::Steps;
using torch::jit::Module;

void check_options(const QuantizeOptions& options) {
  const QuantizeGoal& goal = options.goal;
  if (!goal.given()) return;
  std::vector<std::string> goals;
  if (goal.min_sqnr) goals.emplace_back("min_sqnr");
  if (goal.min_agreement) goals.emplace_back("min_agreement");
  if (goal.score) goals.emplace_back("score");
  if (goal.max_latency) goals.emplace_back("max_latency");
  if (goals.size() > 1)
    throw Error(ErrorCode::BadConfig, fmt::format("{} are two goals", fmt::join(goals, " and ")),
                "set one of them");
  for (const auto& [is_given, name] : {std::pair{options.convert_mapping.has_value(), "convert_mapping"},
                                       std::pair{options.plan.has_value(), "plan"}}) {
    if (is_given)
      throw Error(ErrorCode::BadConfig, fmt::format("{} and a goal both say what stays float", name),
                  "set one of them");
  }
  if (!options.lowers)
    throw Error(ErrorCode::BadConfig, "a goal applies to the lowered model", "leave 'lowers' true");
  if (goal.max_latency && !detail::measures_times(options))
    throw Error(ErrorCode::BadConfig, "max_latency is of times that are measured here",
                "leave 'times' true, and 'machine' and 'target_cpu' as they are");
}

BackendConfig backend_of(const QuantizeOptions& options) {
  BackendConfig backend = options.backend_config ? *options.backend_config : backend_config(options.backend);
  return mode_backend_config(options.mode, options.recipe, std::move(backend));
}

/// The default mapping is that of the table's engine.
QConfigMapping mapping_of(const QuantizeOptions& options, const BackendConfig& backend) {
  return options.mapping ? *options.mapping
                         : mode_qconfig_mapping(options.mode, options.recipe, backend.engine());
}

ConvertOptions convert_options(const QuantizeOptions& options) {
  return {.custom = options.convert_custom, .mapping = options.convert_mapping, .plan = options.plan};
}

LoweringOptions lowering_of(const QuantizeOptions& options) { return {.float_dtype = options.float_dtype}; }

uint64_t bytes_when_saved(const Module& module) {
  uint64_t bytes = 0;
  torch::jit::ExportModule(module, [&bytes](const void*, std::size_t size) {
    bytes += size;
    return size;
  });
  return bytes;
}

/// Everything that stays the same while a model is searched for.
struct Work {
  const QuantizeOptions& options;
  const BackendConfig& backend;
  const QConfigMapping& mapping;
  const Module& model;  ///< what is quantized is its forward
  uint64_t float_bytes{0};
  const SampleSets& samples;
  const QuantizeEvents& events;
  std::shared_ptr<detail::KnownResults> known{std::make_shared<detail::KnownResults>()};  ///< of `model`
};

/// The same work without a word: steps within another step that tells of itself are not told of.
Work silently(const Work& work) {
  static const QuantizeEvents kNone;
  return {.options = work.options,
          .backend = work.backend,
          .mapping = work.mapping,
          .model = work.model,
          .float_bytes = work.float_bytes,
          .samples = work.samples,
          .events = kNone,
          .known = work.known};
}

bool is_judged_on_calibration(const Work& work) {
  return work.options.judged_by.empty() && work.samples.held_back == 0;
}

/// What the last quarter of the samples tells that calibrate.
struct LastPart {
  std::optional<Prepared> earlier{};  ///< the model that has not yet seen them; none of one sample
  detail::RangesLeft left{};          ///< how often their values leave its ranges
};

/// Prepares with a mapping and calibrates: in dynamic mode samples change nothing unless the mapping has
/// static parts.
Prepared calibrated(const Work& work, const QConfigMapping& mapping, const std::vector<Sample>& samples,
                    LastPart* last = nullptr) {
  const QuantizeOptions& options = work.options;
  const Steps steps(work.events);
  Prepared prepared = steps.run("prepare", [&](const Progress&) {
    return prepare(
        work.model, mapping, work.backend,
        detail::with_recipe(PrepareOptions{.custom = options.custom, .equalization = options.equalization},
                            detail::recipe_options(options)));
  });
  if (!samples.empty()) {
    const std::size_t left = detail::last_part(samples).size();
    prepared = steps.run("calibrate", [&](const Progress& progress) {
      const auto after_sample = [&](std::size_t done, std::size_t total) {
        if (last != nullptr && left > 0 && done == total - left) last->earlier = prepared;
        if (progress) progress(done, total);
      };
      calibrate(prepared, samples, {.progress = after_sample});
      return std::move(prepared);
    });
    if (last != nullptr) last->left = detail::stage_of(prepared).ranges_left;
  }
  return prepared;
}

/// Where others judge, and few, the samples of calibration show how far the outputs vary.
std::span<const Sample> beside(const Work& work) {
  if (is_judged_on_calibration(work) || work.samples.trial.size() >= detail::kMostTried) return {};
  return work.samples.calibration;
}

bool measures_here(const Work& work) {
  return work.options.lowers && detail::measures_times(work.options) &&
         is_made_for_this_processor(work.backend);
}

/// What lies between the fastest model and the most accurate one, where that is asked for.
std::vector<FrontierPoint> frontier_of(const Work& work, Prepared& prepared) {
  const QuantizeOptions& options = work.options;
  if (options.frontier == 0) return {};
  if (measures_here(work)) detail::measure_float_times(prepared, work.samples.trial.front());
  return Steps(work.events).run("frontier", [&](const Progress& progress) {
    return frontier(prepared, work.backend, work.samples.trial,
                    {.points = options.frontier,
                     .times = measures_here(work),
                     .decisions = options.decisions,
                     .custom = options.convert_custom,
                     .lowering = lowering_of(options),
                     .progress = progress});
  });
}

/// Finishes the model that `mapping` makes; `first` is one that is calibrated already, for that mapping.
/// It has taken `seconds` to calibrate. `last` becomes what `calibrated` says, for the mapping of the result.
Finished finished_with(const Work& work, const QConfigMapping& mapping, std::optional<Prepared> first,
                       double seconds = 0, LastPart* last = nullptr, std::optional<Plan> plan = {}) {
  const QuantizeOptions& options = work.options;
  detail::FinishTask task{
      .model = work.model,
      .model_bytes = work.float_bytes,
      .backend = work.backend,
      .mapping = mapping,
      .convert = convert_options(options),
      .lowering = lowering_of(options),
      .calibrated =
          [&](const QConfigMapping& wanted) {
            if (first) return *std::exchange(first, std::nullopt);
            return calibrated(work, wanted, work.samples.calibration, last);
          },
      .calibration_seconds = seconds,
      .effort = options.effort,
      .samples = work.samples.trial,
      .decisions = options.decisions,
      .known = work.known,
      .beside = beside(work),
      .lowers = options.lowers,
      .times = measures_here(work),
      .leaves_what_does_not_pay = options.lowers && options.recipe == Recipe::Best && !options.plan,
      .force = options.force};
  if (plan) task.convert.plan = std::move(plan);
  return Steps(work.events).run("convert", [&](const Progress& progress) {
    task.convert.progress = progress;
    return detail::finish(task);
  });
}

/// Of all samples together, from those of `samples` and of `more` others.
double pooled_db(double db, std::size_t samples, double db_of_more, std::size_t more) {
  const auto error = [](double decibels, std::size_t count) {
    return static_cast<double>(count) * std::pow(10, -decibels / 10);
  };
  return -10 *
         std::log10((error(db, samples) + error(db_of_more, more)) / static_cast<double>(samples + more));
}

/// Adds the samples of one trial to another.
void add_samples(const Trial& more, Trial& trial) {
  for (const OutputTrial& output : more.outputs) {
    const auto found = std::ranges::find(trial.outputs, output.name, &OutputTrial::name);
    if (found == trial.outputs.end()) {
      trial.outputs.push_back(output);
      continue;
    }
    if (found->sqnr_db && output.sqnr_db)
      found->sqnr_db = pooled_db(*found->sqnr_db, trial.samples, *output.sqnr_db, more.samples);
    found->decisions.add(output.decisions);
  }
  trial.samples += more.samples;
  trial.sample_db.insert(trial.sample_db.end(), more.sample_db.begin(), more.sample_db.end());
  if (const OutputTrial* worst = trial.worst_output()) trial.sqnr_db = worst->sqnr_db;
}

/// What a model shows that is calibrated on one part of a fold, and judged by the other.
Trial unseen_trial(const Work& work, const Prepared& prepared, const Fold& fold,
                   const ConvertOptions& convert_options) {
  const Lowered lowered = convert(prepared, work.backend, convert_options, lowering_of(work.options));
  const detail::Referee referee(work.model, engine_of(work.backend), fold.trial,
                                detail::tried_samples(work.model, fold.calibration), detail::TrialExtent::All,
                                work.options.decisions, work.known);
  return referee.judge(lowered);
}

/// Adds to `seen` what models of a mapping show on the samples of the folds that are left.
Trial with_other_folds(const Work& work, const QConfigMapping& mapping, const ConvertOptions& convert,
                       Trial seen) {
  for (const Fold& fold : work.samples.others) {
    const Trial trial = unseen_trial(work, calibrated(work, mapping, fold.calibration), fold, convert);
    if (trial.fault) return trial;
    add_samples(trial, seen);
  }
  return seen;
}

/// Whether samples that nobody calibrated on are to tell: those that were calibrated on leave no range.
bool is_too_good(const Work& work, const Finished& done, const LastPart& last) {
  return last.earlier && last.left.share() && !done.is_float_model && !done.trial.fault &&
         done.trial.sqnr_db && is_judged_on_calibration(work);
}

/// A model that is finished, and what was found besides.
struct Result {
  Finished done;
  std::optional<Trial> unseen{};
  std::optional<GoalOutcome> goal{};
  std::vector<FrontierPoint> frontier{};
};

/// The model of the mapping that the goal's search finds.
Result finished_for_goal(const Work& work, Prepared prepared, const QuantizeGoal& goal, LastPart last) {
  if (work.options.recipe == Recipe::Best && measures_here(work) && !work.samples.trial.empty())
    detail::measure_float_times(prepared, work.samples.trial.front());
  const Work inner = silently(work);
  std::optional<Finished> done;
  std::optional<Trial> unseen;
  const auto judged = [&](const ConvertOptions& convert, const AccuracyGoal& wanted) -> ScoreAnew {
    constexpr double kSame = std::numeric_limits<double>::infinity();
    if (done->is_float_model) return {wanted.of_float, /*all_float=*/true};
    if (work.samples.others.empty()) return wanted.score(done->module);
    unseen = with_other_folds(inner, done->mapping, convert, done->trial);
    if (unseen->fault) return -kSame;
    return unseen->assured_db().value_or(unseen->sqnr_db.value_or(kSame));
  };
  const auto confirm = [&](const QConfigMapping& mapping, const AccuracyGoal& wanted) {
    done = finished_with(inner, mapping, std::nullopt, /*seconds=*/0, &last);
    return judged(convert_options(work.options), wanted);
  };
  const auto confirm_plan = [&](const Plan& plan, const AccuracyGoal& wanted) {
    done = finished_with(inner, work.mapping, prepared, /*seconds=*/0, nullptr, plan);
    return judged({.custom = work.options.convert_custom, .plan = plan}, wanted);
  };
  // A few samples, each with another model, have to be certain of 99 of 100 further ones; before all is
  // float, of 19 of 20, as more samples have to be.
  bool is_settled = false;
  const auto settle = [&](const QConfigMapping& mapping, const AccuracyGoal& wanted) {
    is_settled = true;
    ScoreAnew found = confirm(mapping, wanted);
    if (!found.is_all_float && unseen && !unseen->fault)
      found.score = unseen->expected_db().value_or(found.score);
    return found;
  };
  const auto timer = [&](const Module& model) {
    const auto compare = [&](const Sample& sample) {
      return compare_latency(work.model, model, work.backend, sample, detail::kQuickLatency);
    };
    return detail::least_gain(work.samples.trial, compare).latency;
  };
  detail::GoalTask task{.model = work.model,
                        .goal = goal,
                        .backend = work.backend,
                        .samples = work.samples.trial,
                        .decisions = work.options.decisions,
                        .custom = work.options.convert_custom,
                        .lowering = lowering_of(work.options),
                        .confirm = confirm,
                        .confirm_plan = confirm_plan,
                        .timer = timer,
                        .settle = settle};
  if (work.samples.held_back > 0) task.calibrated = work.samples.calibration;
  GoalOutcome outcome = detail::search_for_goal(task, prepared, work.events);
  if (goal.min_sqnr && unseen && !is_settled) outcome.measure = "SQNR in dB of 99 of 100 samples";
  if (done->is_float_model) unseen.reset();
  if (!done->is_float_model) (unseen ? *unseen : done->trial).outside = last.left.share();
  // Entries of the search are nobody's mistake.
  done->report.unmatched_entries = prepared.report().unmatched_entries;
  detail::tell_of_goal(outcome.search, *done);
  if (outcome.search.decibel_price && !done->is_float_model)
    done->mapping = keep_float(done->mapping, outcome.search.kept);
  return {.done = *std::move(done), .unseen = std::move(unseen), .goal = std::move(outcome)};
}

/// A calibrated model, and what its last samples have told.
struct Calibrated {
  Prepared prepared;
  LastPart last{};
  double seconds{0};  ///< that it took
};

Calibrated calibrated_once(const Work& work) {
  const auto begin = std::chrono::steady_clock::now();
  LastPart last;
  const bool judges_unseen = work.options.effort != Effort::Low;
  Prepared prepared =
      calibrated(work, work.mapping, work.samples.calibration, judges_unseen ? &last : nullptr);
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin;
  return {.prepared = std::move(prepared), .last = std::move(last), .seconds = spent.count()};
}

/// The model found, and what it was made with: with a goal, what stays float is searched for first.
Result finished(const Work& work, const QuantizeGoal& goal, Calibrated calibrated) {
  auto& [prepared, last, seconds] = calibrated;
  std::vector<FrontierPoint> points = frontier_of(work, prepared);
  if (goal.given()) {
    Result result = finished_for_goal(work, std::move(prepared), goal, std::move(last));
    result.frontier = std::move(points);
    return result;
  }
  Result result{.done = finished_with(work, work.mapping, std::move(prepared), seconds, &last),
                .frontier = std::move(points)};
  if (is_too_good(work, result.done, last)) {
    Fold fold = detail::without_last_part(work.samples.calibration);
    fold.trial = detail::tried_samples(work.model, fold.trial);
    result.unseen = Steps(work.events).run("unseen", [&](const Progress&) {
      ConvertOptions convert = convert_options(work.options);
      const bool is_decided = work.options.recipe == Recipe::Best && !convert.mapping;
      if (is_decided) convert.plan = result.done.reference.plan();
      return unseen_trial(work, *last.earlier, fold, convert);
    });
    if (result.unseen->fault) {  // of a model that is not the result
      result.unseen.reset();
      return result;
    }
    result.unseen->calibrated_db = result.done.trial.sample_db;
    result.unseen->outside = last.left.share();
  }
  return result;
}

/// Scores see the model with the methods that the user knows, and leave no state in it.
QuantizeGoal goal_with_methods(const QuantizeGoal& goal, const torchscript::MethodAsForward& method) {
  QuantizeGoal result = goal;
  if (goal.score)
    result.score = [score = goal.score, method](const Module& module) {
      const Module with_methods = method.take_back(module);
      std::vector<std::string> methods;
      for (const torch::jit::Method& each : with_methods.get_methods()) methods.push_back(each.name());
      const torchscript::KeptState state(with_methods, methods);
      return score(with_methods);
    };
  return result;
}

}  // namespace

torch::jit::Module Quantized::module() && { return std::move(model).module(); }
Report Quantized::report() && { return std::move(model).report(); }

namespace {

/// `first` is calibrated already, for these options.
Quantized quantized(const Module& model, std::span<const Sample> samples, const QuantizeOptions& options,
                    std::optional<Calibrated> first = {}) {
  check_options(options);
  // What would fail after calibration fails before it.
  if (options.lowers && options.target == LoweringTarget::Fused) io::load_runtime();
  const torchscript::MethodAsForward method(model, options.method);
  const Module as_forward = method.put(model);
  const BackendConfig backend = backend_of(options);
  const QConfigMapping mapping = mapping_of(options, backend);
  const SampleSets sets = detail::sample_sets(samples, torchscript::keeps_state(as_forward), options);
  if (options.goal.given() && samples.empty() && options.judged_by.empty())
    throw Error(ErrorCode::BadConfig, "a goal needs samples to judge by", "give samples, or judged_by");
  const uint64_t float_bytes = options.float_bytes > 0 ? options.float_bytes : bytes_when_saved(model);
  const Work work{.options = options,
                  .backend = backend,
                  .mapping = mapping,
                  .model = as_forward,
                  .float_bytes = float_bytes,
                  .samples = sets,
                  .events = options.events};
  Result result = finished(work, goal_with_methods(options.goal, method),
                           first ? *std::move(first) : calibrated_once(work));
  Finished& done = result.done;
  Quantized found{.model = Lowered(method.take_back(done.module), std::move(done.report)),
                  .is_float_model = done.is_float_model,
                  .target = {.engine = std::string(backend.engine()), .runtime = options.target},
                  .reference = std::move(done.reference),
                  .trial = std::move(done.trial),
                  .unseen = std::move(result.unseen),
                  .latency = done.latency,
                  .optimized_latency = done.optimized_latency,
                  .mapping = std::move(done.mapping),
                  .left_float = std::move(done.left_float),
                  .search_ended_early = done.ended_early,
                  .goal = std::move(result.goal),
                  .elsewhere = std::move(done.elsewhere),
                  .frontier = std::move(result.frontier),
                  .samples = sets.calibration.size(),
                  .held_back = sets.held_back};
  detail::add_remarks(found, float_bytes, options);
  return found;
}

/// With a target that was chosen.
QuantizeOptions for_target(QuantizeOptions options, const Target& target) {
  options.chooses_backend = false;
  options.chooses_target = false;
  options.backend = target.engine;
  options.target = target.runtime;
  return options;
}

/// A decibel of noise is worth the price that the plans are chosen by.
double worth(const Quantized& quantized, const QuantizeOptions& options) {
  const double speed = quantized.latency ? quantized.latency->ratio : 1;
  constexpr double kAsGoodAsFloat = 40;  // above it, decibels are worth ever less
  const double decibels = std::min(quantized.trial.sqnr_db.value_or(0), kAsGoodAsFloat);
  return std::log(speed) + decibel_price(detail::recipe_options(options)) * decibels;
}

/// Targets that are worth to be made, and what the one that it is calibrated for begins with.
struct FastestTargets {
  std::vector<Target> targets{};
  Calibrated calibrated;
};

/// The two fastest by prediction.
FastestTargets fastest_targets(const Module& model, std::span<const Sample> samples,
                               const QuantizeOptions& options) {
  const torchscript::MethodAsForward method(model, options.method);
  const Module as_forward = method.put(model);
  const BackendConfig backend = backend_of(options);
  const SampleSets sets = detail::sample_sets(samples, torchscript::keeps_state(as_forward), options);
  const Work work{.options = options,
                  .backend = backend,
                  .mapping = mode_qconfig_mapping(options.mode, options.recipe, backend.engine()),
                  .model = as_forward,
                  .samples = sets,
                  .events = options.events};
  Calibrated calibrated = calibrated_once(work);
  if (measures_here(work) && !sets.trial.empty())
    detail::measure_float_times(calibrated.prepared, sets.trial.front());
  const detail::Stage& stage = detail::stage_of(calibrated.prepared);
  const Target own = detail::target_of(stage);
  std::vector<Target> fastest = Steps(options.events).run("choose target", [&](const Progress&) {
    std::vector<Target> possible = detail::targets_of(backend);
    std::erase_if(possible, [&](const Target& target) {
      return (!options.chooses_backend && target.engine != own.engine) ||
             (!options.chooses_target && target.runtime != own.runtime);
    });
    constexpr std::size_t kMade = 2;
    std::vector<Target> targets;
    for (const TargetPrediction& each : detail::as_accurate_targets(stage, possible))
      if (targets.size() < kMade) targets.push_back(each.target);
    if (targets.empty()) targets.push_back(own);
    return targets;
  });
  return {.targets = std::move(fastest), .calibrated = std::move(calibrated)};
}

/// The best of the models for the targets that are likely to be fastest.
Quantized for_best_target(const Module& model, std::span<const Sample> samples,
                          const QuantizeOptions& options) {
  if (options.backend_config || options.mapping || options.recipe != Recipe::Best || samples.empty())
    throw Error(
        ErrorCode::BadConfig, "a target is chosen by what recipe best finds on samples",
        "give samples, and leave the mapping, the table and the recipe as they are, or name the target");
  FastestTargets fastest = fastest_targets(model, samples, options);
  const Target own = detail::target_of(detail::stage_of(fastest.calibrated.prepared));
  std::optional<Quantized> best;
  for (const Target& target : fastest.targets) {
    std::optional<Calibrated> first;
    if (target == own) first = std::move(fastest.calibrated);
    Quantized found = quantized(model, samples, for_target(options, target), std::move(first));
    if (!best || worth(found, options) > worth(*best, options)) best = std::move(found);
  }
  // What is predicted to be faster was made, or has more noise.
  std::erase_if(best->notes, [](const Remark& note) { return note.kind == RemarkKind::FasterElsewhere; });
  return *std::move(best);
}

/// With functions of the caller's whose exceptions go through the library as they are.
QuantizeOptions with_guarded_functions(QuantizeOptions options) {
  options.goal.score = detail::of_caller(std::move(options.goal.score));
  QuantizeEvents& events = options.events;
  events.on_begin = detail::of_caller(std::move(events.on_begin));
  events.on_progress = detail::of_caller(std::move(events.on_progress));
  events.on_end = detail::of_caller(std::move(events.on_end));
  events.on_trial = detail::of_caller(std::move(events.on_trial));
  events.on_ranking = detail::of_caller(std::move(events.on_ranking));
  return options;
}

}  // namespace

Quantized quantize(const Module& model, std::span<const Sample> samples, const QuantizeOptions& options) {
  return detail::with_callers_exceptions([&] {
    const QuantizeOptions guarded = with_guarded_functions(options);
    return guarded.chooses_backend || guarded.chooses_target ? for_best_target(model, samples, guarded)
                                                             : quantized(model, samples, guarded);
  });
}

}  // namespace tsq
