// Runs a result before it is written, as a program that loads it will, beside the model that counts as right.

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/csrc/jit/serialization/import.h>
#include <tsq/agreement.h>
#include <tsq/error.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <sstream>

#include "backends/kernels/engine.h"
#include "backends/kernels/engine_packing.h"
#include "backends/kernels/random_state.h"
#include "base/json_number.h"
#include "base/libtorch_error.h"
#include "base/mapped.h"
#include "base/student.h"
#include "io/samples.h"
#include "trial/gains.h"
#include "trial/referee.h"
#include "trial/reloaded.h"
#include "trial/value_shapes.h"

namespace tsq {
namespace detail {

std::pair<torch::jit::Module, uint64_t> reloaded_with_size(const torch::jit::Module& module,
                                                           at::QEngine engine) {
  std::stringstream archive;
  module.save(archive);
  const auto bytes = static_cast<uint64_t>(archive.tellp());
  const kernels::EnginePacking packing(engine);
  torch::jit::Module loaded = torch::jit::load(archive, at::kCPU);
  loaded.eval();
  return {std::move(loaded), bytes};
}

}  // namespace detail

namespace {

using torch::jit::Module;

/// A copy of packed weights is packed anew.
Module deep_copy_in_eval(const Module& model, at::QEngine engine) {
  const kernels::EnginePacking packing(engine);
  Module copy = model.deepcopy();
  copy.eval();
  return copy;
}

/// With the same random numbers each time. `optimized`: as a program runs it, after LibTorch has changed the
/// graph; otherwise as it is written.
at::IValue run(const Module& module, at::QEngine engine, const Sample& sample, bool optimized) {
  constexpr uint64_t kSeed = 0;
  const torch::jit::GraphOptimizerEnabledGuard optimizer(optimized);
  const kernels::EnginePacking packing(engine);
  const kernels::RandomState random(kSeed);
  return kernels::run_with_engine(module, engine, detail::copy_of(sample));
}

/// What `work` returns, or what it throws as a fault. Memory that does not suffice is none of the
/// candidate's.
template <typename Work>
std::optional<TrialFault> fault_of(const Work& work) {
  try {
    return work();
  } catch (const std::exception& error) {
    rethrow_out_of_memory(error);
    return TrialFault{.kind = FaultKind::Throws, .text = reason_of(error)};
  }
}

double mean_of(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double squares_around_mean(std::span<const double> values) {
  if (values.empty()) return 0;
  const double mean = mean_of(values);
  return std::accumulate(values.begin(), values.end(), 0.0,
                         [&](double sum, double value) { return sum + (value - mean) * (value - mean); });
}

/// Student's prediction interval for one more sample like `own`, by the spread of these and `more`.
struct Prediction {
  double mean{0};
  double half{0};
};
std::optional<Prediction> prediction(std::span<const double> own, std::span<const double> more,
                                     double (*quantile)(std::size_t degrees)) {
  const auto is_finite = [](double db) { return std::isfinite(db); };
  const std::size_t n = own.size() + more.size();
  // Both sets vary around means of their own: what was calibrated on does better, as a rule. Where it does
  // not, the samples that nobody calibrated on were judged by a better model than the one that both are of.
  const std::size_t means = more.empty() ? 1 : 2;
  if (own.empty() || n <= means || !std::ranges::all_of(own, is_finite) ||
      !std::ranges::all_of(more, is_finite))
    return std::nullopt;
  const double squares = squares_around_mean(own) + squares_around_mean(more);
  const double deviation = std::sqrt(squares / static_cast<double>(n - means));
  const double mean = more.empty() ? mean_of(own) : std::min(mean_of(own), mean_of(more));
  return Prediction{mean,
                    quantile(n - means) * deviation * std::sqrt(1 + 1 / static_cast<double>(own.size()))};
}

std::optional<double> lower_end(const std::optional<Prediction>& interval) {
  return interval ? std::optional(interval->mean - interval->half) : std::nullopt;
}

/// The lengths of what a sample holds: what a kernel may choose by.
std::string shapes_of(const Sample& sample) {
  std::string text;
  for (const auto& [name, tensor] : tensors_of(c10::ivalue::Tuple::create(sample)))
    text += fmt::format("{}{}", name, fmt::join(tensor.sizes(), "x"));
  return text;
}

}  // namespace

namespace detail {

std::vector<Sample> tried_samples(const Module& model, std::span<const Sample> samples) {
  if (samples.size() <= kMostTried || torchscript::keeps_state(model))
    return {samples.begin(), samples.end()};
  return spread(samples, kMostTried);
}

Referee::Referee(const Module& model, at::QEngine engine, std::vector<Sample> samples,
                 std::vector<Sample> beside, TrialExtent extent,
                 std::optional<std::vector<NamedDecisions>> decisions, std::shared_ptr<KnownResults> known)
    : model_(deep_copy_in_eval(model, engine)),
      state_(model_),
      engine_(engine),
      samples_(std::move(samples)),
      beside_(std::move(beside)),
      extent_(extent),
      wanted_(samples_.size()),
      named_(std::move(decisions)),
      known_(std::move(known)) {}

bool Referee::has_free_shapes() const {
  if (!free_shapes_) free_shapes_ = has_value_dependent_shapes(model_);
  return *free_shapes_;
}

at::IValue Referee::right(const Sample& sample, std::string_view kind, std::size_t index) const {
  try {
    const at::IValue result = run(model_, engine_, sample, /*optimized=*/false);
    // It may be a part of the state, which the next call changes.
    return keeps_state() ? result.deepcopy() : result;
  } catch (const std::exception& error) {
    throw run_error("the model", fmt::format("{} {}", kind, index), error,
                    "give samples that the model takes");
  }
}

at::IValue Referee::known_or_right(const Sample& sample, std::string_view kind, std::size_t index) const {
  if (known_ == nullptr || keeps_state()) return right(sample, kind, index);
  const std::uint64_t hash = hash_of(sample);
  const auto found = known_->find(hash);
  return found != known_->end() ? found->second
                                : known_->emplace(hash, right(sample, kind, index)).first->second;
}

const at::IValue& Referee::wanted(std::size_t index) const {
  if (!wanted_[index] && keeps_state()) {
    state_.begin();
    for (std::size_t i = 0; i < samples_.size(); ++i) wanted_[i] = right(samples_[i], "sample", i);
  } else if (!wanted_[index]) {
    wanted_[index] = known_or_right(samples_[index], "sample", index);
  }
  return *wanted_[index];
}

const std::vector<ResultErrors>& Referee::beside() const {
  if (beside_errors_) return *beside_errors_;
  beside_errors_.emplace();
  state_.begin();
  for (std::size_t i = 0; i < beside_.size(); ++i) {
    const at::IValue result = known_or_right(beside_[i], "calibration sample", i);
    (void)compare_results(result, result, /*free_shapes=*/false, beside_errors_->emplace_back());
  }
  return *beside_errors_;
}

std::optional<Module> Referee::loaded(const Module& candidate, Trial& trial) const {
  std::optional<Module> loaded;
  trial.fault = fault_of([&]() -> std::optional<TrialFault> {
    const auto start = std::chrono::steady_clock::now();
    auto [module, bytes] = reloaded_with_size(candidate, engine_);
    trial.reload_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    loaded = std::move(module);
    trial.bytes = bytes;
    return std::nullopt;
  });
  return loaded;
}

OutputDecisions& Referee::decisions() const {
  if (!decisions_) decisions_.emplace(model_, *named_);
  return *decisions_;
}

namespace {

/// `decisions` may be null.
void add_to(OutputDecisions* decisions, ResultErrors& errors) {
  for (OutputError& output : errors.outputs) {
    if (decisions != nullptr && output.got.defined()) decisions->add(output.place, output.wanted, output.got);
    output.got.reset();
  }
}

void take_decisions(const OutputDecisions& decisions, std::vector<OutputTrial>& outputs) {
  for (OutputTrial& output : outputs) output.decisions = decisions.of(output.name);
}

/// So many rows tell that three percent of the decisions are lost, and not one, in four of five cases
/// (binomial, at a level of 2.5 %).
constexpr uint64_t kTelling = 400;

}  // namespace

Trial Referee::judge(const Module& candidate) const {
  Trial trial;
  const std::optional<Module> loaded = this->loaded(candidate, trial);
  std::optional<torchscript::KeptState> state;
  if (loaded && keeps_state()) state.emplace(*loaded);
  if (named_) decisions().clear();
  std::vector<ResultErrors> errors;
  std::set<std::string> shapes;
  bool is_clear_already = false;
  for (std::size_t i = 0; i < samples_.size() && !trial.fault; ++i) {
    const bool has_new_shapes = shapes.insert(shapes_of(samples_[i])).second;
    is_clear_already = is_clear_already || is_clear(errors);
    if (!has_new_shapes && is_clear_already) continue;
    errors.push_back(try_sample(*loaded, state, i, trial));
    add_to(named_ ? &decisions() : nullptr, errors.back());
  }
  if (trial.fault) return trial;
  sum_up(errors, beside(), trial);
  if (!named_) return trial;
  if (!samples_.empty()) decisions().check_names(mapped(trial.outputs, &OutputTrial::name));
  take_decisions(decisions(), trial.outputs);
  return trial;
}

void Referee::judge_decisions(const Module& candidate, Trial& trial) const {
  const auto is_open = [](const OutputTrial& output) {
    return output.decisions.is_judged() && output.decisions.all.rows < kTelling;
  };
  const bool has_more = named_ && samples_.size() > trial.samples;
  if (trial.fault || !has_more || std::ranges::none_of(trial.outputs, is_open)) return;
  Trial further;
  const std::optional<Module> loaded = this->loaded(candidate, further);
  std::optional<torchscript::KeptState> state;
  if (loaded && keeps_state()) state.emplace(*loaded);
  decisions().clear();
  std::vector<OutputTrial> outputs = trial.outputs;
  for (std::size_t i = 0; i < samples_.size() && std::ranges::any_of(outputs, is_open); ++i) {
    ResultErrors errors = try_sample(*loaded, state, i, further);
    if (further.fault) return;
    add_to(&decisions(), errors);
    wanted_[i].reset();  // it is not asked for again
    take_decisions(decisions(), outputs);
  }
  take_decisions(decisions(), trial.outputs);
}

bool Referee::is_clear(std::span<const ResultErrors> errors) const {
  constexpr std::size_t kFewest = 8;
  if (extent_ == TrialExtent::All || keeps_state() || errors.size() < kFewest) return false;
  Trial so_far;
  sum_up(errors, beside(), so_far);
  const auto further = prediction(so_far.sample_db, {}, student_99);
  return further && std::abs(further->mean - kPoorDb) > further->half;
}

ResultErrors Referee::try_sample(const Module& loaded, const std::optional<torchscript::KeptState>& state,
                                 std::size_t index, Trial& trial) const {
  const at::IValue& right = wanted(index);
  ResultErrors errors;
  trial.fault = fault_of([&] {
    // The first sample as a program runs it: LibTorch changes the graph before the first call and after it.
    // That takes longer than a few runs do, for each shape, so that the others run the graph as it is
    // written.
    const bool is_first = index == 0;
    if (is_first) run(loaded, engine_, samples_[index], /*optimized=*/true);
    if (is_first && state) state->begin();
    const at::IValue got = run(loaded, engine_, samples_[index], /*optimized=*/is_first);
    std::optional<TrialFault> fault = compare_results(right, got, /*free_shapes=*/false, errors);
    if (!fault || !has_free_shapes()) return fault;
    errors = {};
    return compare_results(right, got, /*free_shapes=*/true, errors);
  });
  if (trial.fault) {
    trial.fault->sample = index;
  } else {
    ++trial.samples;
  }
  return errors;
}

}  // namespace detail

std::string_view to_string(FaultKind kind) {
  constexpr std::array<std::string_view, 5> kNames{"throws", "structure", "type", "shape", "not_finite"};
  return kNames.at(static_cast<std::size_t>(kind));
}

const OutputTrial* Trial::worst_output() const {
  const OutputTrial* worst = nullptr;
  for (const OutputTrial& output : outputs) {
    if (output.sqnr_db && (worst == nullptr || *output.sqnr_db < *worst->sqnr_db)) worst = &output;
  }
  return worst;
}

namespace {

/// A few samples with most of the error leave a bound of single ones above what all have together.
std::optional<double> no_more_than(std::optional<double> bound, const std::optional<double>& all_together) {
  return bound && all_together ? std::min(*bound, *all_together) : bound;
}

}  // namespace

std::optional<double> Trial::expected_db() const {
  return no_more_than(lower_end(prediction(sample_db, calibrated_db, detail::student_95)), sqnr_db);
}

std::optional<double> Trial::assured_db() const {
  return no_more_than(lower_end(prediction(sample_db, calibrated_db, detail::student_99)), sqnr_db);
}

nlohmann::json OutputTrial::to_json() const {
  return {{"name", name}, {"sqnr_db", detail::finite_or_null(sqnr_db)}, {"decisions", decisions.to_json()}};
}

nlohmann::json Trial::to_json() const {
  nlohmann::json of_outputs = nlohmann::json::array();
  for (const OutputTrial& output : outputs) of_outputs.push_back(output.to_json());
  nlohmann::json json = {{"samples", samples},
                         {"sqnr_db", detail::finite_or_null(sqnr_db)},
                         {"expected_sqnr_db", detail::finite_or_null(expected_db())},
                         {"outputs", std::move(of_outputs)},
                         {"fault", nullptr}};
  if (outside) json["outside_of_ranges"] = *outside;
  if (different_shapes > 0) json["different_shapes"] = different_shapes;
  if (fault) {
    json["fault"] = {{"kind", to_string(fault->kind)}, {"sample", fault->sample}, {"text", fault->text}};
  }
  return json;
}

Trial try_model(const Module& model, const Module& candidate, const BackendConfig& backend,
                std::span<const Sample> samples, const std::vector<NamedDecisions>& decisions) {
  return detail::Referee(model, engine_of(backend), {samples.begin(), samples.end()}, {},
                         detail::TrialExtent::All, decisions)
      .judge(candidate);
}

}  // namespace tsq
