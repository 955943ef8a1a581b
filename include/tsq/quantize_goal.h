#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>

namespace torch::jit {
struct Module;
}

namespace tsq {

/// What a quantized model has to reach, by one of `min_sqnr`, `min_agreement`, `score` and `max_latency`. It
/// is the fastest model that reaches an accuracy, and the most accurate one within a time.
struct QuantizeGoal {
  std::optional<double> min_sqnr{};       ///< SQNR of the worst output against the float model, in dB
  std::optional<double> min_agreement{};  ///< share of the decisions that are as in float, 0 to 1
  /// A score of one's own, of the float model first and then of each one tried; higher is better. See
  /// AccuracyGoal about the engine.
  std::function<double(const torch::jit::Module&)> score{};
  std::string measure{"score"};  ///< what `score` returns, for people
  double max_drop{0.01};         ///< how much lower than float's it may be, as a fraction of float's
  /// What a run may take on this machine, the upper end of a 95 % interval: seconds, or a share of the float
  /// model's time. Of the first sample and the longest one that counts which gains less.
  std::optional<double> max_latency{};
  bool max_latency_is_share{false};
  std::size_t samples{100};  ///< at most this many are judged by, evenly spread

  [[nodiscard]] bool given() const { return min_sqnr || min_agreement || score || max_latency; }
};

}  // namespace tsq
