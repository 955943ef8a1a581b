#pragma once

#include <tsq/decisions.h>
#include <tsq/quantize.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tsq {

/// One use of an operator in a module, as set_module_name_object_type_order names it.
struct OperatorUse {
  std::string module_name{};
  Symbol type{};
  int index{0};
};

/// Operators that are quantized or stay float together: the operators of a match, those after it that only
/// move values, and all calls of one module.
struct QuantizedLayer {
  std::string name{};                ///< module path; for a function or method that of the module around it
  std::string op{};                  ///< PyTorch's name, "torch.nn.Conv2d"
  std::vector<std::string> nodes{};  ///< Decision::node of its operators
  std::vector<std::string> module_names{};  ///< the entries of a mapping that name it
  std::vector<OperatorUse> uses{};          ///< likewise, where no module path does
  std::optional<int64_t> macs{};            ///< multiply-accumulates of one run; none: not measured
  std::optional<double> seconds{};          ///< time in float in one run; none: not measured

  /// "'features.0' (torch.nn.Conv2d)", "'block' (torch.add 1)", "the model itself (torch.add 0)".
  [[nodiscard]] std::string to_text() const;
  [[nodiscard]] nlohmann::json to_json() const;
};

/// The layers that a prepared model quantizes, in graph order. Throws Error(Unsupported) for a model with
/// standalone modules.
std::vector<QuantizedLayer> quantized_layers(const Prepared& prepared);

/// `mapping` with None for `layers`: set_module_name, and set_module_name_object_type_order for functions and
/// methods.
QConfigMapping keep_float(QConfigMapping mapping, std::span<const QuantizedLayer> layers);

/// The accuracy that one layer costs in int8. SQNR is that of the worst output, in dB (OutputTrial::sqnr_db);
/// infinite without a difference.
struct LayerSensitivity {
  QuantizedLayer layer{};
  /// SQNR when this layer alone is int8; of a layer that is so only with layers around it, of the error that
  /// the model with all in int8 has less when it is float.
  double alone_db{0};
  double cumulative_db{0};  ///< SQNR when it and all layers that cost less are int8
  /// Share of the decisions that are as in float when this layer alone is int8, the lowest of several
  /// outputs; none: no output is judged as decisions.
  std::optional<double> alone_agreement{};
};

struct Sensitivity {
  std::vector<LayerSensitivity> layers{};  ///< the most costly first
  /// No output has floating-point numbers: all decibels here are 10 log10(1 / s), where s is the share of
  /// decisions that are others than in float. 20 dB: one of a hundred.
  bool is_of_decisions{false};
  double int8_db{0};                       ///< SQNR when all are int8
  std::optional<double> int8_agreement{};  ///< share of the decisions when all are int8
  double float_db{0};  ///< SQNR when none is, which shows the effect of folded batch norms
  std::size_t samples{0};

  /// The number of most costly layers that must stay float for an SQNR of at least `db`; none when even all
  /// of them are too few.
  [[nodiscard]] std::optional<std::size_t> float_layers_for(double db) const;
  [[nodiscard]] nlohmann::json to_json() const;
};

struct SensitivityOptions {
  std::size_t samples{16};                  ///< the number of samples used, evenly spread
  std::vector<NamedDecisions> decisions{};  ///< outputs that are scores, whatever the model tells
  LoweringOptions lowering{};
  Progress progress{};  ///< models evaluated, of all
};

/// Ranks the layers of a calibrated model by what they cost its output. Calibrates nothing again: each of the
/// 2 n + 1 models for n layers is converted from the same observers and run on the samples. Throws
/// Error(BadData) for samples that the model refuses, Error(BadModel) for a model without tensors in its
/// output, Error(Unsupported) as quantized_layers and lower.
Sensitivity sensitivity(const Prepared& calibrated, const BackendConfig& backend,
                        std::span<const Sample> samples, const SensitivityOptions& options = {});

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
  /// What the score has to be: the goal, or more since a model that was made anew did worse than the one that
  /// the search had seen.
  double at_least{0};
  bool reached{false};
};

struct GoalSearch {
  bool reached{false};
  std::optional<Reference> reference{};  ///< the model found; empty when the goal was not reached
  std::vector<QuantizedLayer> kept{};    ///< float layers of the model found, the most costly first
  QConfigMapping mapping{};              ///< prepare's with None for them
  double score{0};                       ///< of the model found, else the best of all trials
  std::vector<GoalTrial> trials{};       ///< in order
  std::size_t runs{0};                   ///< models made to measure the cost of the layers

  [[nodiscard]] nlohmann::json to_json() const;
};

/// The score of a model that is prepared and calibrated again.
struct ScoreAnew {
  ScoreAnew(double value, bool all_float = false) : score(value), is_all_float(all_float) {}

  double score;
  bool is_all_float;  ///< nothing of it is quantized, whatever the mapping says: int8 gains nothing
};

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
  std::function<void(const GoalTrial&)> on_trial{};  ///< called after each
  Progress on_ranking{};
};

/// Keeps layers of a calibrated model float so that it reaches the goal: those whose rounding costs the most
/// accuracy for the work that int8 saves. All int8 is tried first; then neighbouring layers are quantized
/// in groups, one group at a time; groups are split where that matters, until it is known which of them the
/// goal allows. Makes some thirty models, however many layers there are. The same input has the same result.
/// Throws the errors of sensitivity and of the goal's score.
GoalSearch reach_goal(const Prepared& calibrated, const BackendConfig& backend, const AccuracyGoal& goal,
                      std::span<const Sample> samples, const GoalOptions& options = {});

}  // namespace tsq
