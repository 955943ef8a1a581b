// Two models' times, in turns, with an interval for their ratio.

#include "trial/latency.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <tsq/bench/statistics.h>
#include <tsq/trial.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <vector>

#include "backends/kernels/engine.h"
#include "backends/kernels/engine_packing.h"
#include "base/json_number.h"
#include "io/samples.h"
#include "operators/can_be_frozen.h"
#include "torchscript/kept_state.h"
#include "trial/gains.h"
#include "trial/reloaded.h"

namespace tsq {
namespace {

using torch::jit::Module;
using Clock = std::chrono::steady_clock;

// LibTorch watches a model in its first run, and changes it before the second.
constexpr std::size_t kWarmUp = 2;
constexpr std::size_t kFewestRounds = 11;
constexpr std::size_t kMostRounds = 400;
// With so many on one side of a ratio, the median of all lies on the other in one of 64 cases.
constexpr std::size_t kRoundsThatAgree = 6;

/// A model that is timed. What a call leaves in it would make the next one another: each is the first.
struct Timed {
  Module module;
  torchscript::KeptState state{module};
};

double time_of(const Timed& model, at::QEngine engine, const Sample& sample) {
  const at::NoGradGuard no_grad;
  model.state.begin();
  Sample copy = detail::copy_of(sample);
  const kernels::EnginePacking packing(engine);  // waiting for it is not timed
  const Clock::time_point begin = Clock::now();
  model.module.get_method("forward")(std::move(copy));
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

struct Rounds {
  std::vector<double> first{};
  std::vector<double> second{};
  std::vector<double> ratios{};
};

/// The interval of the median: by bootstrap, or of few rounds from the least ratio to the largest one,
/// outside of which the median lies in one of 32 cases where there are six. Fewer carry none: nothing is
/// excluded then.
bench::Interval interval_of(const Rounds& rounds) {
  if (rounds.ratios.size() < kRoundsThatAgree) return {0, std::numeric_limits<double>::infinity()};
  if (rounds.ratios.size() >= kFewestRounds) return bench::median_interval(rounds.ratios);
  const auto [least, largest] = std::ranges::minmax(rounds.ratios);
  return {least, largest};
}

/// The round whose ratio is the median; of an even number the one below the middle.
std::size_t middle_of(const Rounds& rounds) {
  std::vector<std::size_t> order(rounds.ratios.size());
  std::iota(order.begin(), order.end(), 0U);
  std::ranges::sort(order, {}, [&](std::size_t round) { return rounds.ratios[round]; });
  return order[(order.size() - 1) / 2];
}

/// Whether a slow model is faster for certain: more rounds would only tell by how much.
bool is_faster_for_certain(const Rounds& rounds, double undecided) {
  return rounds.ratios.size() >= kRoundsThatAgree &&
         std::ranges::min(rounds.ratios) > std::max(undecided, detail::kFaster);
}

Module optimized(const Module& model, at::QEngine engine) {
  const kernels::EnginePacking packing(engine);
  Module in_eval = model.copy();
  in_eval.eval();
  return operators::can_be_frozen(in_eval) ? torch::jit::optimize_for_inference(in_eval) : in_eval;
}

LatencyComparison summary(const Rounds& rounds) {
  const auto [low, high] = interval_of(rounds);
  const std::size_t middle = middle_of(rounds);
  return {.float_seconds = rounds.first[middle],
          .int8_seconds = rounds.second[middle],
          .ratio = rounds.ratios[middle],
          .ratio_low = low,
          .ratio_high = high,
          .rounds = rounds.ratios.size(),
          .threads = at::get_num_threads()};
}

}  // namespace

bool LatencyComparison::is_slower() const noexcept { return ratio_high < detail::kSlower; }

bool LatencyComparison::has_interval() const noexcept { return std::isfinite(ratio_high); }

bool LatencyComparison::is_hardly_faster() const noexcept {
  return has_interval() && ratio_low <= detail::kFaster;
}

nlohmann::json LatencyComparison::to_json() const {
  return {{"float_seconds", float_seconds},
          {"int8_seconds", int8_seconds},
          {"ratio", has_interval() ? nlohmann::json(ratio) : nlohmann::json(nullptr)},
          {"ratio_interval", {ratio_low, detail::finite_or_null(ratio_high)}},
          {"rounds", rounds},
          {"threads", threads}};
}

detail::SampleLatency detail::least_gain(std::span<const Sample> samples,
                                         const std::function<LatencyComparison(const Sample&)>& compare) {
  const Sample& first = samples.front();
  const Sample& last = longest(samples);
  const SampleLatency of_first{.sample = &first, .latency = compare(first)};
  if (&last == &first) return of_first;
  const SampleLatency of_longest{.sample = &last, .latency = compare(last)};
  return of_longest.latency.ratio >= of_first.latency.ratio ? of_first : of_longest;
}

LatencyComparison compare_latency(const Module& model, const Module& candidate, const BackendConfig& backend,
                                  const Sample& sample, const LatencyOptions& options) {
  const at::QEngine engine = engine_of(backend);
  const Module saved = detail::reloaded_with_size(model, engine).first;
  const Timed first{.module = options.optimizes_first ? optimized(saved, engine) : saved};
  const Timed second{.module = detail::reloaded_with_size(candidate, engine).first};
  Rounds rounds;
  double warm_up = 0;
  for (std::size_t round = 0; round < kWarmUp && warm_up < options.seconds; ++round)
    warm_up += time_of(first, engine, sample) + time_of(second, engine, sample);
  double spent = 0;
  for (std::size_t round = 0; round < kMostRounds; ++round) {
    const bool swapped = round % 2 == 1;
    const double one = time_of(swapped ? second : first, engine, sample);
    const double other = time_of(swapped ? first : second, engine, sample);
    spent += one + other;
    rounds.first.push_back(swapped ? other : one);
    rounds.second.push_back(swapped ? one : other);
    rounds.ratios.push_back(rounds.first.back() / rounds.second.back());
    const std::size_t done = rounds.ratios.size();
    if (spent >= options.seconds && is_faster_for_certain(rounds, options.undecided)) break;
    if (done < kFewestRounds && spent < options.longest) continue;
    if (spent >= options.seconds) break;
    if (done % kFewestRounds != 0) continue;
    const LatencyComparison so_far = summary(rounds);
    if (so_far.ratio_low > options.undecided || so_far.ratio_high < options.undecided) return so_far;
  }
  return summary(rounds);
}

}  // namespace tsq
