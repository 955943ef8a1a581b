#pragma once

#include <c10/core/ScalarType.h>
#include <tsq/backend_config.h>
#include <tsq/custom_config.h>
#include <tsq/decisions.h>
#include <tsq/equalization.h>
#include <tsq/frontier.h>
#include <tsq/left_float.h>
#include <tsq/progress.h>
#include <tsq/qconfig_mapping.h>
#include <tsq/quantize.h>
#include <tsq/quantize_goal.h>
#include <tsq/recipe.h>
#include <tsq/report.h>
#include <tsq/sample.h>
#include <tsq/sensitivity.h>
#include <tsq/target.h>
#include <tsq/trial.h>

#include <cstddef>
#include <cstdint>
#include <functional>
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

/// Where the scales of activations come from.
enum class QuantizeMode {
  Static,      ///< from calibration
  Dynamic,     ///< from each input at run time
  WeightOnly,  ///< there are none: only weights of embeddings and linear layers are quantized
};

/// The mapping that a mode and a recipe take where none is given; weights of mode WeightOnly have 8 bits.
/// Throws Error(BadConfig) for a backend other than fbgemm, x86, qnnpack and onednn.
QConfigMapping mode_qconfig_mapping(QuantizeMode mode, Recipe recipe, std::string_view backend = "x86");
/// The table with the rows that a mode and a recipe need beside those of PyTorch's.
BackendConfig mode_backend_config(QuantizeMode mode, Recipe recipe, BackendConfig backend);

/// What a caller hears while quantize works. To cancel, throw from any of these or from a score: see
/// Progress. Steps are "prepare", "calibrate", "convert", "search" and "hold back"; one may begin within
/// another. Called by one thread at a time.
struct QuantizeEvents {
  std::function<void(std::string_view step)> on_begin{};
  std::function<void(std::string_view step, std::size_t done, std::size_t total)> on_progress{};
  /// Also when the step throws: then what it throws itself is not heard.
  std::function<void(std::string_view step)> on_end{};
  std::function<void(const GoalTrial&)> on_trial{};  ///< within "search": after each model tried
  Progress on_ranking{};                             ///< within "search": layers ranked
};

/// The options of quantize. All have the defaults of the command `tsq quantize`.
struct QuantizeOptions {
  std::string backend{"x86"};                     ///< name of a table
  std::optional<BackendConfig> backend_config{};  ///< a table of one's own, in place of the named one
  QuantizeMode mode{QuantizeMode::Static};
  std::optional<QConfigMapping> mapping{};  ///< none: that of mode, recipe and backend
  PrepareCustomConfig custom{};
  EqualizationMapping equalization{};
  // RecipeOptions says what each of these means.
  Recipe recipe{Recipe::Best};
  TargetCpu target_cpu{TargetCpu::Native};
  LoweringTarget target{LoweringTarget::Stock};
  std::shared_ptr<const MachineProfile> machine{};
  std::optional<double> smooth_quant{};
  std::optional<double> cross_layer_margin{};
  WeightRounding weight_rounding{WeightRounding::Learned};
  Effort effort{Effort::Normal};
  std::optional<double> decibel_price{};
  bool python_source{false};
  ConvertCustomConfig convert_custom{};
  std::optional<QConfigMapping> convert_mapping{};      ///< see ConvertOptions; not together with a goal
  std::optional<Plan> plan{};                           ///< the same
  c10::ScalarType float_dtype{c10::ScalarType::Float};  ///< see LoweringOptions
  bool lowers{true};              ///< false: the reference model is the result, and no latency is measured
  std::string method{"forward"};  ///< samples are its arguments; it is what is quantized and judged
  QuantizeGoal goal{};
  /// Samples to judge by. None: those of calibration; with a goal for the outputs a quarter of them, which
  /// then do not calibrate.
  std::vector<Sample> judged_by{};
  /// Outputs that are scores of decisions, though nothing tells that they are, or along another dimension
  /// than the model tells (tsq/decisions.h).
  std::vector<NamedDecisions> decisions{};
  /// Whether latency is measured, so that layers that do not pay stay float. Without, and where `machine` or
  /// `target_cpu` names a profile, the same input makes the same model, as long as LibTorch computes with the
  /// same number of threads.
  bool times{true};
  /// Whether the engine of LibTorch is chosen, in place of `backend`, and what runs the model, in place of
  /// `target`: the fastest by prediction among models with as little noise, of the two fastest the one that
  /// is faster when it is made. `backend` names the first to prepare for. Not with a mapping or a table of
  /// one's own.
  bool chooses_backend{false};
  bool chooses_target{false};
  std::size_t frontier{0};  ///< so many models between the fastest and the most accurate are measured, too
  bool force{false};        ///< what the trial shows is told, and changes nothing
  uint64_t float_bytes{0};  ///< size of the float model's file; 0: as it would be saved now
  QuantizeEvents events{};
};

/// A search for a goal, and the goal that it had.
struct GoalOutcome {
  GoalSearch search{};
  std::string measure{};
  double at_least{0};
  std::optional<double> float_score{};  ///< of the float model, for a score of one's own

  [[nodiscard]] nlohmann::json to_json() const;
};

/// What disappoints in a quantized model, or is worth knowing of it.
enum class RemarkKind {
  // Warnings
  Fails,           ///< it was kept by `force` though its trial failed: `text`
  PoorSqnr,        ///< SQNR of the worst output, `text` where there are several, is `figure` dB, under 20
  MayBePoorSqnr,   ///< one of 20 further samples may have less than `figure` dB, under 20
  OtherDecisions,  ///< the share `figure` of the decisions of an output are others than in float, more than
                   ///< one
                   ///< in a hundred: `text`, "9 of 160 of output[1], 2 of them ties"
  TiedDecisions,   ///< in the share `figure` of the clear decisions of output `text` several classes are the
                   ///< largest, over 0.05
  Slower,          ///< it has `figure` times the speed of float, under 0.95
  Larger,          ///< it has `figure` times the bytes of float, over 1.02
  NothingQuantized,  ///< the result is the float model, for no layer could be quantized
  HardlyQuantized,   ///< only the share `figure` of the work is quantized
  LittleGained,      ///< it has `figure` times the bytes of float, over 0.95, and is not found faster: `text`
                     ///< is its speed
  // Notes
  FloatPays,  ///< the result is the float model, for int8 is slower or larger, or gains nothing
  FloatGrew,  ///< the result is the float model, with `figure` times its bytes, over 1.02: with the record
              ///< `text`
  MostlyFloatPays,   ///< the share `figure` of the work is quantized, the rest would be slower or larger
  SearchEnded,       ///< the search for layers that do not pay ended before it had looked at each
  FloatWithoutVnni,  ///< `figure` layers of fused programs compute in float on processors without VNNI
  EstimatedTimes,    ///< the profile `text` of the processor was derived from another one's, not measured
  FasterElsewhere,   ///< for the target that `text` names it is predicted to take `figure` times its time
  NotTimed,          ///< times were not measured, for a profile of a processor is named
  FewSamples,  ///< samples held back are only `figure`: one of as many further ones may exceed their ranges
};

struct Remark {
  RemarkKind kind{RemarkKind::Fails};
  double figure{0};
  std::string text{};
  std::string remedy{};  ///< what to do about it; empty: nothing
};
/// One sentence, with its remedy and without a full stop.
std::string to_string(const Remark& remark);

/// A quantized model that has been tried, and what is to be known of it.
struct Quantized {
  /// The model, with the methods of the float one. Its report has the multiply-accumulates, where there was a
  /// sample to count them.
  Lowered model;
  bool is_float_model{false};  ///< nothing was worth quantizing
  Target target{};             ///< that it was made for
  /// The same in reference form; its forward is the method that was quantized.
  Reference reference;
  Trial trial{};
  /// Samples with models that were not calibrated on them, where that was needed to judge.
  std::optional<Trial> unseen{};
  std::optional<LatencyComparison> latency{};
  /// Beside the float model after torch::jit::optimize_for_inference, where LibTorch can freeze it.
  std::optional<LatencyComparison> optimized_latency{};
  /// The one that was given, with null for the layers that were left float. A goal's makes the same model;
  /// what the trial left float, the reference's plan does.
  QConfigMapping mapping{};
  std::vector<LeftFloat> left_float{};  ///< by what the trial has shown
  bool search_ended_early{false};       ///< for layers that do not pay: Effort::High goes on
  std::optional<GoalOutcome> goal{};
  std::vector<TargetPrediction> elsewhere{};  ///< what it is predicted to take by target, fastest first
  /// Of models between the fastest one and the one with the least noise, where that was asked for.
  std::vector<FrontierPoint> frontier{};
  std::size_t samples{0};    ///< calibrated on
  std::size_t held_back{0};  ///< not calibrated on, for judging alone
  std::vector<Remark> warnings{};
  std::vector<Remark> notes{};

  [[nodiscard]] const torch::jit::Module& module() const& noexcept { return model.module(); }
  [[nodiscard]] torch::jit::Module module() &&;
  [[nodiscard]] const Report& report() const& noexcept { return model.report(); }
  [[nodiscard]] Report report() &&;

  /// {"trial", "unseen", "latency", "optimized_latency", "is_float_model", "left_float", "samples",
  /// "held_back", "goal", "targets", "qconfig_mapping", "warnings", "notes"}: what was not measured or asked
  /// for is null; warnings and notes are sentences. The report has a to_json of its own.
  [[nodiscard]] nlohmann::json to_json() const;
};

/// Quantizes a float model, which is in eval mode and is not modified, as the command `tsq quantize` does:
/// prepare, calibrate, convert and lower; then the result is tried beside the float model. Layers that fail,
/// or make the model slower or larger, stay float, and with a goal those that it needs. Where int8 makes the
/// model neither faster nor smaller, the result computes in float. Throws the errors of these steps,
/// Error(BadConfig) for options that do not go together and a goal that no model reaches, and
/// Error(Unsupported) for a model that fails and cannot be mended. Threads may quantize at once; with `times`
/// each then times what the others leave of the processor.
Quantized quantize(const torch::jit::Module& model, std::span<const Sample> samples,
                   const QuantizeOptions& options = {});

}  // namespace tsq
