#pragma once

#include <tsq/backend_config.h>
#include <tsq/decisions.h>
#include <tsq/sample.h>

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace torch::jit {
struct Module;
}

namespace tsq {

/// Why a model must not replace another.
enum class FaultKind {
  Throws,     ///< it cannot be saved, loaded or run
  Structure,  ///< its result has another number or kind of values
  Type,       ///< a tensor of its result has another dtype
  Shape,      ///< a tensor of its result has another shape
  NotFinite,  ///< its result is NaN or infinite where the other's is finite
};
/// "throws", "structure", "type", "shape", "not_finite".
std::string_view to_string(FaultKind kind);

struct TrialFault {
  FaultKind kind{FaultKind::Throws};
  std::size_t sample{0};  ///< index of the sample that shows it
  std::string text{};     ///< for people, without a full stop: "output[1] is not finite where float is"
};

/// What a trial shows of the floating-point tensor at one place of the results.
struct OutputTrial {
  std::string name{};  ///< "output", "output[1]", "output['logits']"
  /// 10 log10(power / power of the error) over all samples, in dB. The power is that of what varies: the mean
  /// over the samples is taken off, element by element; where shapes differ, or there is one sample, the mean
  /// over all rows or all elements. An output that is constant has its plain power. Nothing is taken off the
  /// error: an offset counts. None of whole numbers.
  std::optional<double> sqnr_db{};
  JudgedDecisions decisions{};  ///< whether its numbers are scores or labels, and decide as float's

  /// {"name", "sqnr_db", "decisions": JudgedDecisions::to_json}.
  [[nodiscard]] nlohmann::json to_json() const;
};

/// The result of running a model beside another on samples.
struct Trial {
  std::size_t samples{0};             ///< number of samples that were run
  std::optional<TrialFault> fault{};  ///< the first fault found, which ends the trial
  std::vector<OutputTrial> outputs{};
  /// SQNR of each sample with floating-point outputs, in dB, of its worst output. The power is that of the
  /// sample, or the mean over all samples where that is larger: an output that is nearly zero in one sample
  /// is no worse for it.
  std::vector<double> sample_db{};
  /// The same of samples that the model was calibrated on, where `sample_db` has others: they show how far
  /// samples differ. Their mean is too good, as a rule, and counts where it is lower.
  std::vector<double> calibrated_db{};
  /// Of samples that the model was not calibrated on: the share of observed values outside of the ranges that
  /// calibration had seen; none: not counted.
  std::optional<double> outside{};
  std::optional<double> sqnr_db{};  ///< of the worst output; none: there was nothing to compare
  uint64_t bytes{0};                ///< size of the candidate's archive, without extra files
  double reload_seconds{0};         ///< what LibTorch took to save the candidate and to load it again
  std::size_t different_shapes{0};  ///< outputs whose shape depends on values and differed; not compared

  /// The output with the lowest SQNR; null where there is none.
  [[nodiscard]] const OutputTrial* worst_output() const;
  /// The SQNR that 19 of 20 further samples like these exceed, by the spread of `sample_db` and of
  /// `calibrated_db`: the lower end of Student's prediction interval, and no more than `sqnr_db`. None for
  /// fewer than two samples, and where one is infinite.
  [[nodiscard]] std::optional<double> expected_db() const;
  /// The SQNR that 99 of 100 further samples exceed.
  [[nodiscard]] std::optional<double> assured_db() const;
  /// {"samples", "sqnr_db", "expected_sqnr_db", "outputs", "fault"}; numbers that are not finite are null.
  [[nodiscard]] nlohmann::json to_json() const;
};

/// Tries `candidate` as a program that loads it will use it: saves it, loads it again from those bytes, runs
/// it on each sample, and compares its result with that of `model`, which counts as right. Shapes may differ
/// where they depend on values (`nonzero`, a loop that a comparison ends), ranks may not. Both models run on
/// copies of the samples with the same random numbers; neither is changed. Both begin with their own state,
/// where a model keeps some between calls, and see the samples in order. The candidate is loaded and run
/// with the engine of `backend`, which is held for each load and each call alone. Throws Error(BadData) for a
/// sample that `model` refuses, and Error(BadConfig) where it has no output of a name in `decisions`. Threads
/// may try models at once, for different engines too.
Trial try_model(const torch::jit::Module& model, const torch::jit::Module& candidate,
                const BackendConfig& backend, std::span<const Sample> samples,
                const std::vector<NamedDecisions>& decisions = {});

/// The times of two models beside each other.
struct LatencyComparison {
  double float_seconds{0};  ///< a run of the first model, in the round whose ratio is the median
  double int8_seconds{0};   ///< a run of the second, in the same round
  /// The first's time over the second's: the median over the rounds, which is the quotient of the two times
  /// above, and its 95 % interval (see has_interval).
  double ratio{1};
  double ratio_low{1};
  double ratio_high{1};
  std::size_t rounds{0};
  int threads{1};

  /// Whether there were rounds enough for an interval: six. Without one it is 0 to infinity, and the ratio
  /// says nothing.
  [[nodiscard]] bool has_interval() const noexcept;
  /// Whether the second is slower: the whole interval lies under 0.95.
  [[nodiscard]] bool is_slower() const noexcept;
  /// Whether it is at most a little faster: there is an interval, and it does not lie above 1.05.
  [[nodiscard]] bool is_hardly_faster() const noexcept;
  [[nodiscard]] nlohmann::json to_json() const;
};

struct LatencyOptions {
  double undecided{0.95};       ///< measuring ends when the interval excludes this ratio
  double seconds{2};            ///< measuring ends, about
  double longest{10};           ///< measuring ends though there are not eleven rounds yet
  bool optimizes_first{false};  ///< the first model is measured after torch::jit::optimize_for_inference
};

/// Times both models on one sample, in turns, both saved and loaded as in try_model, with LibTorch's number
/// of threads, until the interval is clear of `options.undecided` or the time is up. Threads may do so at
/// once, but each then times what the others leave of the processor. Throws what LibTorch throws about a
/// model that it cannot freeze, where `options.optimizes_first` asks for that.
LatencyComparison compare_latency(const torch::jit::Module& model, const torch::jit::Module& candidate,
                                  const BackendConfig& backend, const Sample& sample,
                                  const LatencyOptions& options = {});

}  // namespace tsq
