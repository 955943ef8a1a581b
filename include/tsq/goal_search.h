#pragma once

#include <tsq/backend_config.h>
#include <tsq/custom_config.h>
#include <tsq/decisions.h>
#include <tsq/lowering_options.h>
#include <tsq/progress.h>
#include <tsq/qconfig_mapping.h>
#include <tsq/quantize.h>
#include <tsq/quantized_layer.h>
#include <tsq/sample.h>

#include <cstddef>
#include <functional>
#include <limits>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace torch::jit {
struct Module;
}

namespace tsq {

/// A goal for the accuracy of a quantized model. `score` is called without a hold of the engine: a score of
/// one's own runs the model under an EngineHold (tsq/engine_lock.h) of the engine that it was lowered for.
struct AccuracyGoal {
  std::string measure{};  ///< for people: "SQNR in dB of 19 of 20 samples"
  double at_least{0};
  std::function<double(const torch::jit::Module&)> score{};  ///< of a lowered model; higher is better
  /// The share of the outputs' power that the error may have, where the goal is such a share; none: it is
  /// found by halving.
  std::optional<double> error_budget{};
  double of_float{std::numeric_limits<double>::infinity()};  ///< the score of the float model itself
};

/// SQNR of the worst output over the samples, or, where it is lower, the one that 19 of 20 further samples
/// like these exceed (Trial::expected_db). Throws Error(BadData) for samples that the model refuses.
/// `calibrated` are samples that the model was calibrated on: the spread is theirs too.
AccuracyGoal sqnr_goal(const Prepared& prepared, std::span<const Sample> samples, double db,
                       std::span<const Sample> calibrated = {});
/// Share of the decisions that are as in float (JudgedDecisions::all); the lowest of several outputs. Throws
/// Error(BadModel) when no output is judged as decisions, Error(BadConfig) when none has a name of `named`.
AccuracyGoal agreement_goal(const Prepared& prepared, std::span<const Sample> samples, double fraction,
                            const std::vector<NamedDecisions>& named = {});

/// One model that the search has tried.
struct GoalTrial {
  std::string what{};           ///< "all int8", "the 4 most costly layers float" …
  std::size_t float_layers{0};  ///< chosen ones; operators between them stay float as well
  double score{0};
  /// What the score has to be (of a time: at most): the goal, or more since a model that was made anew did
  /// worse than the one that the search had seen.
  double at_least{0};
  bool reached{false};
};

/// What a search has found.
struct GoalSearch {
  bool reached{false};
  std::optional<Reference> reference{};  ///< the model found; empty when the goal was not reached
  std::vector<QuantizedLayer> kept{};    ///< float layers of the model found, the most costly first
  QConfigMapping mapping{};              ///< prepare's with None for them
  /// Where plans are chosen by a price of noise: how much longer, as a share of its time, the model found may
  /// take for a decibel. Its plan may leave single operators float, too, of which the mapping knows nothing.
  std::optional<double> decibel_price{};
  bool lower_is_better{false};      ///< scores are times, and goals are upper limits
  double score{0};                  ///< of the model found, else the best of all trials
  std::vector<GoalTrial> trials{};  ///< in order
  std::size_t runs{0};              ///< models made to measure the cost of the layers

  [[nodiscard]] nlohmann::json to_json() const;
};

/// The score of a model that is prepared and calibrated again.
struct ScoreAnew {
  ScoreAnew(double value, bool all_float = false) : score(value), is_all_float(all_float) {}

  double score;
  bool is_all_float;  ///< nothing of it is quantized, whatever the mapping says: int8 gains nothing
};

/// How a goal is searched for.
struct GoalOptions {
  std::size_t ranking_samples{16};
  ConvertCustomConfig custom{};
  LoweringOptions lowering{};
  /// The score of the model that is prepared and calibrated again with a mapping, on any samples. Where it is
  /// lower than the score of the model from the same calibration and misses the goal, more layers stay float.
  std::function<ScoreAnew(const QConfigMapping&)> confirm{};
  /// A milder score of such a model. Where all float alone is left, the one with the best score of `confirm`
  /// is made once more, and taken if this reaches the goal.
  std::function<ScoreAnew(const QConfigMapping&)> settle{};
  /// The same as `confirm` of the calibrated model that is converted by a plan. None: plans are not chosen by
  /// prices.
  std::function<ScoreAnew(const Plan&)> confirm_plan{};
  std::function<void(const GoalTrial&)> on_trial{};  ///< called after each
  Progress on_ranking{};
};

/// Finds what stays float of a calibrated model so that it reaches the goal. Of one that recipe best has
/// prepared with static ranges, the fastest plan that does, by the price of noise, for which some
/// four models are made. Of others, and where no price reaches the goal, layers stay float: those whose
/// rounding costs the most accuracy for the work that int8 saves. All int8 is tried first; then neighbouring
/// layers are quantized in groups, one group at a time; groups are split where that matters, until it is
/// known which of them the goal allows. Makes some thirty models, however many layers there are. The same
/// input has the same result. Throws the errors of sensitivity and of the goal's score.
GoalSearch reach_goal(const Prepared& calibrated, const BackendConfig& backend, const AccuracyGoal& goal,
                      std::span<const Sample> samples, const GoalOptions& options = {});

}  // namespace tsq
