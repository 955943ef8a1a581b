#pragma once

#include <tsq/sample.h>

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace torch::jit {
struct Module;
}

namespace tsq {

/// How often values occur.
struct ValueHistogram {
  double low{0};  ///< the least value
  double high{0};
  std::vector<int64_t> counts{};                     ///< of 64 bins from low to high
  std::optional<std::pair<double, double>> range{};  ///< that the codes reach

  [[nodiscard]] nlohmann::json to_json() const;
};

/// The layer of a row whose operators the model's own code calls.
inline constexpr std::string_view kModelItself = "(the model itself)";

/// What one operator of an int8 model computes beside the same value of the float model. Shares and counts
/// are over all samples.
struct LayerComparison {
  /// Of the float model, the module whose operator `kernel` begins with: "features.0.conv", or
  /// kModelItself.
  std::string layer{};
  std::string kernel{};          ///< of the int8 model: "quantized::conv2d"
  std::size_t occurrence{0};     ///< how many operators of this kind run before it in the int8 model
  std::string float_operator{};  ///< whose value it is to equal: that of the layer, or of what follows it
  double sqnr_db{0};             ///< of its output, with the errors of all layers before
  /// Of its output when all that it reads is the float model's (its shadow), rounded as the int8 model rounds
  /// it in front of this operator.
  std::optional<double> alone_sqnr_db{};
  std::optional<double>
      weight_sqnr_db{};  ///< of its weight, but for a factor of each channel: a batch norm is folded in
  std::optional<double> outside{};  ///< share of the float values that its range of codes does not reach
  std::optional<int64_t> codes{};   ///< that its range has
  std::optional<int64_t> codes_used{};
  /// Its channels are scaled, and the weight of a later layer takes that back (equalization, smoothing), or
  /// all of it has a factor that a later operator has in float (1/√d of attention): SQNR is that without
  /// these factors, `outside` is none.
  bool is_scaled{false};
  std::optional<double> outlier{};  ///< the largest float value over the one that 99 % do not exceed

  std::optional<ValueHistogram> values{};   ///< of the float values, where ComparisonOptions asks for them
  std::optional<ValueHistogram> weights{};  ///< of the float weight

  [[nodiscard]] nlohmann::json to_json() const;
};

/// Why a layer of the float model that computes something has no row.
enum class NoRow {
  WithinAnother,     ///< the kernel of another row computes it
  NothingComparable  ///< no operator of the int8 model returns a value of its form
};

/// A sentence for people.
std::string_view to_string(NoRow reason);

struct LayerWithoutRow {
  std::string layer{};
  NoRow reason{};
};

struct ComparedLayers {
  std::vector<LayerComparison> rows{};         ///< in the order of the flow
  std::vector<LayerWithoutRow> without_row{};  ///< in the same order

  [[nodiscard]] nlohmann::json to_json() const;
};

struct ComparisonOptions {
  bool histograms{false};  ///< of values and weights
};

/// Runs a float model and an int8 model of it, made by any tool, on the samples and compares what each
/// operator returns, in the order of the flow: PyTorch's numeric suite (weights, activations and shadows) for
/// TorchScript. Calls of layers are found by the attributes that hold their weights, or, where one of the
/// files was frozen, by the weights themselves; all other operators by the layers that their values come
/// from. An int8 value is compared with the nearest of the float values that come from the same layers.
/// Operators that only view or convert their input are left out. Both models run with the engine that is in
/// use when it is called (engine_in_use), which is held for each call alone; threads may compare models at
/// once. Throws Error(BadData) where a model cannot run on a sample, and Error(BadModel) where the models
/// have no layer in common.
ComparedLayers compare_layers(const torch::jit::Module& float_model, const torch::jit::Module& int8_model,
                              std::span<const Sample> samples, const ComparisonOptions& options = {});

}  // namespace tsq
