#include "noise/noise.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/autograd.h>
#include <tsq/error.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

#include "base/libtorch_error.h"
#include "io/samples.h"
#include "noise/watched_model.h"
#include "outputs/output_power.h"

namespace tsq::noise {
namespace {

using Tensors = std::vector<at::Tensor>;

/// So many roundings, spread from the least to the largest noise, show whether gradients tell. Half of all
/// predictions are within 2.2 dB on every network that was looked at but those that end in a saturated
/// softmax, with 4 to 6.
constexpr std::size_t kTried = 8;
constexpr double kFarOff = 0.3;  // a factor of two

/// Of a step: rounding to nearest errs by half of one, and by the last bits of a product.
constexpr double kRoundedOnly = 0.501;

/// Outputs that are projected together: of more than so many, several share a run backwards.
constexpr std::size_t kMostProjections = 16;

/// Of samples whose rows may be those of one sequence, and of batches of images.
constexpr std::size_t kFewestSamples = 4;
constexpr std::size_t kFewestBatches = 2;

/// The first tensor of a sample that has rows, which may be a batch; undefined where there is none.
at::Tensor batch_of(const Sample& sample) {
  for (const at::IValue& argument : sample) {
    if (argument.isTensor() && argument.toTensor().defined() && argument.toTensor().dim() > 1)
      return argument.toTensor();
  }
  return {};
}

/// Some of the samples, as few as have the items that are wanted.
std::vector<Sample> some_of(bool keeps_state, std::span<const Sample> samples, const NoiseOptions& options) {
  constexpr std::int64_t kImages = 4;
  std::vector<Sample> some = detail::some_for(keeps_state, samples, options.samples);
  if (!options.items || some.empty()) return some;
  std::size_t of_some = 0;
  bool are_images = true;
  for (const Sample& sample : some) {
    const at::Tensor batch = batch_of(sample);
    of_some += batch.defined() ? static_cast<std::size_t>(batch.size(0)) : 1;
    are_images = are_images && batch.defined() && batch.dim() == kImages;
  }
  const std::size_t enough = (*options.items * some.size() + of_some - 1) / std::max<std::size_t>(of_some, 1);
  return detail::some_for(keeps_state, some, std::max(enough, are_images ? kFewestBatches : kFewestSamples));
}

bool is_judged(const at::Tensor& output) {
  return output.defined() && output.layout() == at::kStrided && output.is_floating_point();
}

at::Tensor finite_part(const at::Tensor& values) {
  return at::where(at::isfinite(values), values, at::zeros({}, values.options()));
}

/// Errors add up within a channel.
at::Tensor channel_sums(const at::Tensor& values, std::int64_t axis) {
  if (values.dim() == 0) return values.reshape({1}).to(at::kDouble);
  std::vector<std::int64_t> others;
  for (std::int64_t dim = 0; dim < values.dim(); ++dim) {
    if (dim != axis) others.push_back(dim);
  }
  return (others.empty() ? values : values.sum(others)).to(at::kDouble);
}

/// The same where not all values are finite.
at::Tensor finite_channel_sums(const at::Tensor& values, std::int64_t axis) {
  const at::Tensor sums = channel_sums(values, axis);
  return at::isfinite(sums).all().item<bool>() ? sums : channel_sums(finite_part(values), axis);
}

/// The mean of each channel over tensors that come one after the other.
class ChannelMeans {
 public:
  void add(const at::Tensor& values, std::int64_t axis) {
    const at::Tensor sums = finite_channel_sums(values, axis);
    if (sums.numel() == 0 || (sum_.defined() && sum_.sizes() != sums.sizes())) return;
    sum_ = sum_.defined() ? sum_ + sums : sums;
    count_ += static_cast<double>(values.numel()) / static_cast<double>(sums.numel());
  }
  /// Undefined where nothing came.
  [[nodiscard]] at::Tensor mean() const { return sum_.defined() ? sum_ / count_ : sum_; }

 private:
  at::Tensor sum_{};
  double count_{0};
};

/// Of the channels of a value.
struct ObservedMeans {
  ChannelMeans values{};
  ChannelMeans errors{};

  void add(const at::Tensor& value, const at::Tensor& error, std::int64_t axis, double step) {
    values.add(value, axis);
    // What is cut off on purpose, as by a clamp before hardswish, is no error to take off.
    errors.add(error.masked_fill(error.abs() > kRoundedOnly * step, 0), axis);
  }
};

double worst(const std::vector<double>& shares) { return *std::ranges::max_element(shares); }

bool is_near(double predicted, double measured) {
  return std::abs(std::log10(measured / predicted)) <= kFarOff;
}

double error_power(const at::Tensor& wanted, const at::Tensor& got) {
  const at::Tensor error = at::where(at::isfinite(wanted), wanted.to(at::kDouble) - got.to(at::kDouble),
                                     at::zeros({}, at::kDouble))
                               .flatten();
  const double power = at::dot(error, error).item<double>();
  return std::isnan(power) ? std::numeric_limits<double>::infinity() : power;
}

/// What `work` returns, or nothing where LibTorch has no gradients for it: roundings are measured then.
template <typename Work>
auto or_none(const Work& work) -> std::optional<decltype(work())> {
  try {
    return work();
  } catch (const std::exception& error) {
    rethrow_out_of_memory(error);
    return std::nullopt;
  }
}

}  // namespace

NoiseModel::NoiseModel(const ir::Model& calibrated, std::span<const Sample> samples,
                       const NoiseOptions& options)
    : model_(std::make_unique<WatchedModel>(calibrated, options.rounded)),
      samples_(some_of(model_->keeps_state(), samples, options)) {
  for (const ir::Node* node : roundings()) index_.emplace(node, index_.size());
  run_in_float();
  shares_.assign(roundings().size(), {.of_outputs = std::vector<double>(outputs_.size())});
  uncorrected_.assign(roundings().size(), std::vector<double>(outputs_.size()));
  has_gradient_.assign(roundings().size(), false);
  is_lost_.assign(roundings().size(), false);
  predict(options);
  measure_where_needed();
}

const std::vector<const ir::Node*>& NoiseModel::roundings() const noexcept { return model_->roundings(); }

void NoiseModel::run_in_float() {
  const std::vector<bool> none(roundings().size(), false);
  for (std::size_t i = 0; i < samples_.size(); ++i) {
    std::vector<std::pair<std::string, at::Tensor>> results;
    try {
      results = model_->with_roundings(samples_[i], none);
    } catch (const std::exception& error) {
      rethrow_out_of_memory(error);
      throw Error(ErrorCode::BadData,
                  fmt::format("the model cannot run on sample {}: {}", i, reason_of(error)),
                  "give samples that the model takes");
    }
    for (std::size_t place = 0; i == 0 && place < results.size(); ++place) {
      if (!is_judged(results[place].second)) continue;
      outputs_.push_back(results[place].first);
      places_.push_back(place);
    }
    Tensors wanted;
    for (const std::size_t place : places_)
      wanted.push_back(place < results.size() ? results[place].second.clone() : at::Tensor());
    wanted_.push_back(std::move(wanted));
  }
  for (std::size_t k = 0; k < outputs_.size(); ++k) {
    Tensors of_samples;
    for (const Tensors& wanted : wanted_) {
      if (is_judged(wanted[k])) of_samples.push_back(wanted[k]);
    }
    const std::vector<double> powers = detail::output_powers(of_samples);
    powers_.push_back(std::accumulate(powers.begin(), powers.end(), 0.0));
  }
}

/// Of several outputs, which share a run backwards.
class NoiseModel::Projection {
 public:
  Projection(const NoiseModel& noise, std::uint64_t seed, std::size_t count)
      : noise_(noise), generator_(at::detail::createCPUGenerator(seed)), count_(static_cast<double>(count)) {}

  /// A sum of the outputs of a group, each number with a sign at random, each output with power 1. Undefined
  /// where no gradient comes from them.
  at::Tensor of(const WatchedModel::Run& run, std::span<const std::size_t> group) {
    at::Tensor sum;
    for (const std::size_t k : group) {
      if (noise_.places_[k] >= run.outputs.size()) continue;
      const at::Tensor& output = run.outputs[noise_.places_[k]].second;
      if (!output.requires_grad() || noise_.powers_[k] <= 0) continue;
      const at::Tensor signs = at::empty_like(output, at::kFloat).bernoulli_(0.5, generator_) * 2 - 1;
      const at::Tensor one =
          (finite_part(output).to(at::kDouble) * signs).sum() / std::sqrt(noise_.powers_[k] * count_);
      sum = sum.defined() ? sum + one : one;
    }
    return sum;
  }

 private:
  const NoiseModel& noise_;
  at::Generator generator_;
  double count_;
};

void NoiseModel::predict(const NoiseOptions& options) {
  const at::AutoGradMode gradients_on(true);  // whatever the caller computes with
  Projection projection(*this, options.seed, options.projections);
  std::vector<std::vector<std::size_t>> groups(std::min(outputs_.size(), kMostProjections));
  for (std::size_t k = 0; k < outputs_.size(); ++k) groups[k % groups.size()].push_back(k);
  std::vector<ObservedMeans> means(roundings().size());
  std::vector<Contribution> contributions;
  for (const Sample& sample : samples_) {
    const auto with_gradients = or_none([&] { return model_->with_gradients(sample); });
    const WatchedModel::Run run = with_gradients ? *with_gradients : model_->in_float(sample);
    const std::vector<RoundingError> errors = errors_of(run);
    for (const RoundingError& error : errors) {
      if (options.corrects_means && ir::is_observer(roundings()[error.rounding]))
        means[error.rounding].add(error.tensor.detach(), error.error, error.axis,
                                  model_->step_of(error.rounding));
    }
    const Reached reached = reached_by(errors, options.corrects_means);
    const std::size_t runs = reached.tensors.empty() ? 0 : groups.size() * options.projections;
    for (std::size_t i = 0; i < runs; ++i) {
      const at::Tensor projected = projection.of(run, groups[i % groups.size()]);
      if (!projected.defined()) continue;
      const auto gradients = or_none([&] {
        return torch::autograd::grad({projected}, reached.tensors, {}, /*retain_graph=*/i + 1 < runs,
                                     /*create_graph=*/false, /*allow_unused=*/true);
      });
      if (gradients) add_contributions(reached, i % groups.size(), *gradients, contributions);
    }
  }
  // What biases take off: the mean of a value's error in each channel, and of what rounding a weight adds to
  // each of a layer's sums.
  std::vector<at::Tensor> taken_off(roundings().size());
  for (std::size_t r = 0; options.corrects_means && r < taken_off.size(); ++r) {
    const ir::Node* node = roundings()[r];
    if (ir::is_observer(node)) {
      taken_off[r] = means[r].errors.mean();
      continue;
    }
    const auto read = index_.find(node->input(0)->node());
    const at::Tensor inputs = read == index_.end() ? at::Tensor() : means[read->second].values.mean();
    if (inputs.defined()) taken_off[r] = model_->mean_error_of_sums(r, inputs);
  }
  for (const Contribution& each : contributions)
    add_shares(each, groups[each.group], taken_off[each.rounding]);
}

std::vector<NoiseModel::RoundingError> NoiseModel::errors_of(const WatchedModel::Run& run) const {
  const at::NoGradGuard no_gradients;
  std::vector<RoundingError> errors;
  for (std::size_t rounding = 0; rounding < run.rounded.size(); ++rounding) {
    for (std::size_t place = 0; place < run.rounded[rounding].size(); ++place) {
      const Channels& each = run.rounded[rounding][place];
      errors.push_back({.rounding = rounding,
                        .tensor = each.tensor,
                        .axis = each.axis,
                        .error = model_->error_of(rounding, place, each.tensor)});
    }
  }
  return errors;
}

NoiseModel::Reached NoiseModel::reached_by(const std::vector<RoundingError>& errors,
                                           bool corrects_means) const {
  Reached reached;
  for (const RoundingError& error : errors) {
    if (!error.tensor.requires_grad()) continue;
    reached.tensors.push_back(error.tensor);
    reached.errors.push_back(&error);
  }
  reached.biases.resize(reached.errors.size());
  for (std::size_t i = 0; corrects_means && i < reached.errors.size(); ++i) {
    const at::Tensor bias = model_->bias_of(reached.errors[i]->rounding);
    if (!bias.defined()) continue;
    reached.biases[i] = reached.tensors.size();
    reached.tensors.push_back(bias);
  }
  return reached;
}

void NoiseModel::add_contributions(const Reached& reached, std::size_t group,
                                   const std::vector<at::Tensor>& gradients,
                                   std::vector<Contribution>& contributions) {
  for (std::size_t i = 0; i < reached.errors.size(); ++i) {
    if (!gradients[i].defined()) continue;
    const RoundingError& to = *reached.errors[i];
    const at::Tensor gradient =
        gradients[i].layout() == at::kStrided ? gradients[i] : gradients[i].to_dense();
    const at::Tensor product = gradient * to.error;
    Contribution found{.rounding = to.rounding, .group = group, .errors = channel_sums(product, to.axis)};
    if (!at::isfinite(found.errors).all().item<bool>()) {
      is_lost_[to.rounding] = true;
      found.errors = channel_sums(finite_part(product), to.axis);
    }
    if (!has_gradient_[to.rounding]) has_gradient_[to.rounding] = gradient.any().item<bool>();
    if (ir::is_observer(roundings()[to.rounding])) {
      found.gradients = finite_channel_sums(gradient, to.axis);
    } else if (reached.biases[i] && gradients[*reached.biases[i]].defined()) {
      found.gradients = gradients[*reached.biases[i]].to(at::kDouble);
    }
    contributions.push_back(std::move(found));
  }
}

void NoiseModel::add_shares(const Contribution& found, std::span<const std::size_t> outputs,
                            const at::Tensor& mean) {
  const auto power = [](const at::Tensor& sums) { return at::dot(sums, sums).item<double>(); };
  // Of another number of channels there is no mean.
  const bool has_mean =
      mean.defined() && found.gradients.defined() && mean.sizes() == found.gradients.sizes();
  const double uncorrected = power(found.errors);
  const double kept = has_mean ? power(found.errors - mean * found.gradients) : uncorrected;
  for (const std::size_t k : outputs) {
    uncorrected_[found.rounding][k] += uncorrected;
    shares_[found.rounding].of_outputs[k] += kept;
  }
}

bool NoiseModel::follows_gradients() const {
  // Most models tell by all roundings together, which one run a sample shows.
  std::vector<double> sums(outputs_.size());
  for (const std::vector<double>& shares : uncorrected_) {
    for (std::size_t k = 0; k < sums.size(); ++k) sums[k] += shares[k];
  }
  if (is_near(worst(sums), worst(measured({roundings().begin(), roundings().end()})))) return true;
  std::vector<std::size_t> predicted;
  for (std::size_t r = 0; r < shares_.size(); ++r) {
    if (has_gradient_[r] && worst(uncorrected_[r]) > 0) predicted.push_back(r);
  }
  std::ranges::stable_sort(predicted, {}, [&](std::size_t r) { return worst(uncorrected_[r]); });
  const std::size_t tried = std::min(predicted.size(), kTried);
  std::size_t far_off = 0;
  for (std::size_t i = 0; i < tried; ++i) {
    const std::size_t r = predicted[(2 * i + 1) * predicted.size() / (2 * tried)];
    if (!is_near(worst(uncorrected_[r]), worst(measured({roundings()[r]})))) ++far_off;
  }
  return 2 * far_off <= tried;
}

void NoiseModel::measure_where_needed() {
  if (outputs_.empty()) return;
  const bool follow = follows_gradients();
  for (std::size_t r = 0; r < shares_.size(); ++r) {
    if (follow && has_gradient_[r] && !is_lost_[r]) continue;
    shares_[r] = {.of_outputs = measured({roundings()[r]}), .is_measured = true};
  }
}

const Shares* NoiseModel::of(const ir::Node* node) const {
  const auto found = index_.find(node);
  return found == index_.end() ? nullptr : &shares_[found->second];
}

std::vector<double> NoiseModel::predicted(const std::unordered_set<const ir::Node*>& rounded) const {
  std::vector<double> sums(outputs_.size());
  for (const ir::Node* node : rounded) {
    const Shares* shares = of(node);
    for (std::size_t k = 0; shares != nullptr && k < sums.size(); ++k) sums[k] += shares->of_outputs[k];
  }
  return sums;
}

std::vector<double> NoiseModel::measured(const std::unordered_set<const ir::Node*>& rounded) const {
  std::vector<bool> on(roundings().size());
  for (std::size_t r = 0; r < on.size(); ++r) on[r] = rounded.contains(roundings()[r]);
  std::vector<double> sums(outputs_.size());
  for (std::size_t i = 0; i < samples_.size(); ++i) {
    const auto got = model_->with_roundings(samples_[i], on);
    for (std::size_t k = 0; k < sums.size(); ++k) {
      const at::Tensor& wanted = wanted_[i][k];
      const bool is_same = places_[k] < got.size() && is_judged(wanted) &&
                           is_judged(got[places_[k]].second) &&
                           got[places_[k]].second.sizes() == wanted.sizes();
      if (is_same && powers_[k] > 0) sums[k] += error_power(wanted, got[places_[k]].second) / powers_[k];
    }
  }
  return sums;
}

}  // namespace tsq::noise
