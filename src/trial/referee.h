#pragma once

#include <c10/core/QEngine.h>
#include <torch/csrc/jit/api/module.h>
#include <tsq/trial.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "pipeline/decisions.h"
#include "torchscript/kept_state.h"
#include "trial/results.h"

namespace tsq::detail {

/// How many samples a model is tried on at most.
inline constexpr std::size_t kMostTried = 16;

/// Which samples a trial runs: all, or, after eight, those of further shapes alone, where it is clear already
/// on which side of kPoorDb 99 of 100 samples lie.
enum class TrialExtent { All, UntilClear };

/// The samples of which a trial runs at most kMostTried: all of a model that keeps state, for errors add up
/// in it.
std::vector<Sample> tried_samples(const torch::jit::Module& model, std::span<const Sample> samples);

/// What a model without state has returned for samples, by their hashes: who judges further candidates
/// against it need not run it again.
using KnownResults = std::unordered_map<std::uint64_t, at::IValue>;

/// Judges candidates against one model on the same samples, which that model runs only once. Where it keeps
/// state, the samples are a sequence, and so are those beside: both models begin each with their own state.
class Referee {
 public:
  /// `model` is right; it is not changed. Both are run with `engine`, for which candidates are loaded.
  /// `beside` are further samples, which show how far the outputs of `model` vary. `decisions` are outputs
  /// that are scores, whatever the model tells; none: decisions are not compared. `known` are results of
  /// `model`, which it adds to.
  Referee(const torch::jit::Module& model, at::QEngine engine, std::vector<Sample> samples,
          std::vector<Sample> beside = {}, TrialExtent extent = TrialExtent::All,
          std::optional<std::vector<NamedDecisions>> decisions = std::nullopt,
          std::shared_ptr<KnownResults> known = nullptr);

  /// See try_model.
  [[nodiscard]] Trial judge(const torch::jit::Module& candidate) const;
  /// Compares the decisions of outputs that `trial` judges once more, on as many of the samples as it takes
  /// to tell whether many are lost, where these are more than it has run. Faults are none of a trial that has
  /// ended: they end this.
  void judge_decisions(const torch::jit::Module& candidate, Trial& trial) const;
  [[nodiscard]] const std::vector<Sample>& samples() const noexcept { return samples_; }

 private:
  /// Whether values of `model_` decide about shapes.
  [[nodiscard]] bool has_free_shapes() const;
  [[nodiscard]] const at::IValue& wanted(std::size_t index) const;
  [[nodiscard]] bool keeps_state() const noexcept { return state_.is_read(); }
  [[nodiscard]] at::IValue right(const Sample& sample, std::string_view kind, std::size_t index) const;
  [[nodiscard]] at::IValue known_or_right(const Sample& sample, std::string_view kind,
                                          std::size_t index) const;
  [[nodiscard]] const std::vector<ResultErrors>& beside() const;
  /// Whether samples with these errors tell enough to leave out a further one.
  [[nodiscard]] bool is_clear(std::span<const ResultErrors> errors) const;
  /// The candidate as a program loads it; writes a fault and what loading shows into the trial.
  [[nodiscard]] std::optional<torch::jit::Module> loaded(const torch::jit::Module& candidate,
                                                         Trial& trial) const;
  [[nodiscard]] OutputDecisions& decisions() const;
  /// The errors of one sample; writes a fault into the trial.
  ResultErrors try_sample(const torch::jit::Module& loaded,
                          const std::optional<torchscript::KeptState>& state, std::size_t index,
                          Trial& trial) const;

  torch::jit::Module model_;
  torchscript::KeptState state_;
  at::QEngine engine_;
  std::vector<Sample> samples_;
  std::vector<Sample> beside_;
  TrialExtent extent_;
  mutable std::optional<std::vector<ResultErrors>> beside_errors_{};  ///< what `model_` returns for them
  mutable std::vector<std::optional<at::IValue>>
      wanted_;  ///< what `model_` returns for each sample, once run
  std::optional<std::vector<NamedDecisions>> named_;
  mutable std::optional<OutputDecisions> decisions_{};
  std::shared_ptr<KnownResults> known_;
  mutable std::optional<bool> free_shapes_{};  ///< asked for where shapes differ: it reads the whole graph
};

}  // namespace tsq::detail
