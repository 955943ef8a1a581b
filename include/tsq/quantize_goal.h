#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>

namespace torch::jit {
struct Module;
}

namespace tsq {

/// What a quantized model has to reach, by one of `min_sqnr`, `min_agreement` and `score`. Layers stay float
/// until it does: the fewest and cheapest ones.
struct QuantizeGoal {
  std::optional<double> min_sqnr{};       ///< SQNR of the worst output against the float model, in dB
  std::optional<double> min_agreement{};  ///< share of the decisions that are as in float, 0 to 1
  /// A score of one's own, of the float model first and then of each one tried; higher is better. See
  /// AccuracyGoal about the engine.
  std::function<double(const torch::jit::Module&)> score{};
  std::string measure{"score"};  ///< what `score` returns, for people
  double max_drop{0.01};         ///< how much lower than float's it may be, as a fraction of float's
  std::size_t samples{100};      ///< at most this many are judged by, evenly spread

  [[nodiscard]] bool given() const { return min_sqnr || min_agreement || score; }
};

}  // namespace tsq
