#pragma once

#include <tsq/backend_config.h>
#include <tsq/backends.h>
#include <tsq/custom_config.h>
#include <tsq/equalization.h>
#include <tsq/files.h>
#include <tsq/lowering_options.h>
#include <tsq/plan.h>
#include <tsq/progress.h>
#include <tsq/qconfig_mapping.h>
#include <tsq/recipe.h>
#include <tsq/report.h>
#include <tsq/sample.h>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

namespace torch::jit {
struct Module;
}

namespace tsq {

/// A model with observers. Run its module on data (or call calibrate), then convert it. Saves to a
/// TorchScript file that any stock LibTorch runs, so calibration can happen in a program that does not link
/// tsq. A value: a copy has observers, buffers and parameters of its own. Several threads may read one; who
/// runs its module, or calibrates it, is alone with it.
class Prepared {
 public:
  struct Stage;  ///< of the library alone: a model on its way, with its configuration and report

  Prepared(const Prepared& other);
  Prepared(Prepared&& other) noexcept = default;
  Prepared& operator=(const Prepared& other);
  Prepared& operator=(Prepared&& other) noexcept = default;
  ~Prepared() = default;

  /// The observed module; its forward has the user's signature and updates the observers.
  [[nodiscard]] const torch::jit::Module& module() const&;
  [[nodiscard]] torch::jit::Module module() &&;
  [[nodiscard]] const Report& report() const&;
  [[nodiscard]] Report report() &&;
  /// The mapping that it was prepared with.
  [[nodiscard]] const QConfigMapping& mapping() const&;
  /// The table that it was prepared for.
  [[nodiscard]] const BackendConfig& backend() const&;
  /// The user's model.
  [[nodiscard]] const torch::jit::Module& float_model() const&;
  /// Whether it was prepared for training.
  [[nodiscard]] bool trains() const noexcept;
  /// Writes the whole file or nothing. Recipe Best measures the mean errors of rounding first, as convert
  /// does, for the file does not hold the samples. Throws Error(BadOutput).
  void save(const std::string& path, const ExtraFiles& extra_files = {}) const;
  /// Throws Error(BadModel) when the file is not a prepared model of tsq, or was changed since tsq wrote it.
  static Prepared load(const std::string& path);

 private:
  explicit Prepared(std::shared_ptr<Stage> stage) : stage_(std::move(stage)) {}

  std::shared_ptr<Stage> stage_;
};

/// A model of quantize_per_tensor / dequantize pairs around float operators: the meaning of the quantized
/// model, for any LibTorch and any exporter. A value, as Prepared is.
class Reference {
 public:
  Reference(const Reference& other);
  Reference(Reference&& other) noexcept = default;
  Reference& operator=(const Reference& other);
  Reference& operator=(Reference&& other) noexcept = default;
  ~Reference() = default;

  [[nodiscard]] const torch::jit::Module& module() const&;
  [[nodiscard]] torch::jit::Module module() &&;
  [[nodiscard]] const Report& report() const&;
  [[nodiscard]] Report report() &&;
  /// What convert has decided: the same plan makes the same reference of the same calibrated model.
  [[nodiscard]] Plan plan() const;
  void save(const std::string& path, const ExtraFiles& extra_files = {}) const;
  static Reference load(const std::string& path);

 private:
  using Stage = Prepared::Stage;
  friend Stage;
  explicit Reference(std::shared_ptr<Stage> stage) : stage_(std::move(stage)) {}

  std::shared_ptr<Stage> stage_;
};

// What the verbs promise about threads: prepare, convert_to_reference, lower, convert and fuse may run in
// several threads at once, for different engines too, also on one model or Prepared, as long as nobody runs
// or calibrates that one meanwhile. The results are those of the same calls one after another. They set
// LibTorch's engine only while they pack weights, under the lock of tsq/engine_lock.h.

struct PrepareOptions {
  PrepareCustomConfig custom{};
  /// The layers whose input and weight ranges are balanced, channel by channel.
  EqualizationMapping equalization{};
  // Which passes run, here and in the later steps; RecipeOptions says what each means.
  Recipe recipe{Recipe::Best};  ///< Fx is prepare_fx, Best adds passes of tsq's own
  TargetCpu target_cpu{TargetCpu::Native};
  LoweringTarget target{LoweringTarget::Stock};
  std::shared_ptr<const MachineProfile> machine{};
  std::optional<double> smooth_quant{};
  std::optional<double> cross_layer_margin{};
  WeightRounding weight_rounding{WeightRounding::Learned};
  Effort effort{Effort::Normal};
  std::optional<double> decibel_price{};
  bool python_source{false};
};

/// Captures `model` (which is not modified), fuses, matches the backend's patterns and puts observers in.
/// Source: torch.ao.quantization.quantize_fx.prepare_fx. Throws Error(BadModel) for an empty
/// module or one that is already prepared or quantized, Error(BadConfig).
Prepared prepare(const torch::jit::Module& model, const QConfigMapping& mapping, const BackendConfig& backend,
                 const PrepareOptions& options = {});

struct CalibrateOptions {
  /// Samples are the arguments of this method.
  std::string method{"forward"};
  Progress progress{};  ///< counts samples
};

/// Runs the prepared model on every sample, without gradients; may be called many times. Of a model that
/// keeps state between calls, the samples of one call are a sequence: it begins with the state of the float
/// model, and so does the result. Recipe Best keeps copies of up to 32 samples, 128 MB at most, chosen by
/// their contents, and measures with them the mean errors of rounding (correct_mean_errors) when the model is
/// converted or saved. What is found does not depend on the order of samples but for the last bits of running
/// sums; histograms and moving averages keep PyTorch's own order (docs/calibration.md). Throws Error(BadData)
/// naming the sample for a wrong number of arguments, a wrong type, a shape that the model refuses, an empty
/// tensor, NaN or infinity, Error(OutOfMemory), and Error(Internal) where the float model runs on the sample
/// and the prepared one does not.
void calibrate(Prepared& prepared, std::span<const Sample> samples, const CalibrateOptions& options = {});

struct ConvertOptions {
  ConvertCustomConfig custom{};
  /// Names operators that are to stay float after all: it has the entries of prepare's mapping, each
  /// with the same QConfig or null (K-02).
  std::optional<QConfigMapping> mapping{};
  /// What to do with each operator and each value, in place of what the rules of the recipe say: a plan of
  /// Reference::plan, edited or not. Not together with `mapping`.
  std::optional<Plan> plan{};
  std::optional<double> decibel_price{};  ///< in place of that of prepare (RecipeOptions)
  Progress progress{};  ///< counts observers, layers and samples, each of which takes about as long
};

/// Observers become quantize/dequantize pairs and weighted operators get quantized weights.
/// Source: torch.ao.quantization.quantize_fx.convert_to_reference_fx. Throws
/// Error(BadConfig) for the table of another backend than that of prepare, and for a plan of another model,
/// table, target or recipe, or that cannot be: it names the operator and the reason.
Reference convert_to_reference(const Prepared& prepared, const BackendConfig& backend,
                               const ConvertOptions& options = {});

/// A model of kernels, and what became of each operator. Goes wherever a module goes. Copies share the
/// module.
class Lowered {
 public:
  Lowered(torch::jit::Module module, Report report);
  [[nodiscard]] const torch::jit::Module& module() const& noexcept;
  [[nodiscard]] torch::jit::Module module() &&;
  [[nodiscard]] const Report& report() const& noexcept;
  [[nodiscard]] Report report() &&;
  operator const torch::jit::Module&() const& noexcept { return module(); }

 private:
  struct Parts;
  std::shared_ptr<const Parts> parts_;
};

/// Replaces dequantize - operator - quantize by kernels of the backend's engine, with packed weights.
/// Source: torch/ao/quantization/fx/_lower_to_native_backend.py. Throws Error(Unsupported) when this LibTorch
/// has no such engine and for bfloat16 on a machine without instructions for it, Error(BadConfig) for a dtype
/// other than float and bfloat16, and for the table of another backend than that of prepare.
Lowered lower(const Reference& reference, const BackendConfig& backend, const LoweringOptions& options = {});

/// convert_to_reference, then lower: convert_fx.
Lowered convert(const Prepared& prepared, const BackendConfig& backend, const ConvertOptions& options = {},
                const LoweringOptions& lowering = {});

/// Fusion alone (fuse_fx): an eval-mode module with the backend's fusion rows applied.
torch::jit::Module fuse(const torch::jit::Module& model, const BackendConfig& backend,
                        const FuseCustomConfig& custom = {});

/// The version of tsq, "0.1.0".
std::string version();

}  // namespace tsq
