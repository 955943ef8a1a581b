#pragma once

#include <tsq/sample.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ir/model.h"
#include "noise/watched_model.h"

/// What rounding a model's values and weights does to its outputs.
namespace tsq::noise {

/// What a rounding adds to each of a model's outputs: the power of the error, as a share of the power of the
/// output (output_powers).
struct Shares {
  std::vector<double> of_outputs{};
  /// The model was run with this rounding alone: no gradient tells.
  bool is_measured{false};
};

struct NoiseOptions {
  std::size_t samples{16};  ///< of those that are given, evenly spread
  /// Samples may be batches: no more of them than have so many items, but four, or two batches of images.
  std::optional<std::size_t> items{};
  std::size_t projections{1};  ///< of each sample and output
  std::uint64_t seed{1};       ///< of the projections
  /// Biases take off what rounding adds to the sums of layers on average (correct_mean_errors).
  bool corrects_means{false};
  /// The model as it is rounded, with layers of the same names: weights are rounded as they are there. Null:
  /// to nearest.
  const ir::Model* rounded{};
};

/// Predicts, for each rounding of a calibrated model, what it adds to the outputs. The gradient of a random
/// projection of an output tells how far an error of a value reaches it: the error of each channel of the
/// value, as rounding really makes it, times the gradient, is the error of the projection. Errors of channels
/// and of roundings are taken for independent. Where no gradient comes, and where gradients
/// do not tell (after a saturated softmax), the model runs with each rounding by itself.
class NoiseModel {
 public:
  /// Runs the model forwards and backwards on the samples. Throws Error(BadData) for a sample that it
  /// refuses.
  NoiseModel(const ir::Model& calibrated, std::span<const Sample> samples, const NoiseOptions& options = {});

  /// The floating-point outputs, by their places in the result.
  [[nodiscard]] const std::vector<std::string>& outputs() const noexcept { return outputs_; }
  /// Observers that round, and layers with weights that are rounded, in the order of the graph.
  [[nodiscard]] const std::vector<const ir::Node*>& roundings() const noexcept;
  /// Null for a node that rounds nothing.
  [[nodiscard]] const Shares* of(const ir::Node* node) const;
  /// What these roundings add together, by the predictions.
  [[nodiscard]] std::vector<double> predicted(const std::unordered_set<const ir::Node*>& rounded) const;
  /// The same, by running the model with them on the same samples.
  [[nodiscard]] std::vector<double> measured(const std::unordered_set<const ir::Node*>& rounded) const;

 private:
  class Projection;
  /// What a rounding changes of a tensor.
  struct RoundingError {
    std::size_t rounding{};
    at::Tensor tensor{};
    std::int64_t axis{};
    at::Tensor error{};
  };
  /// The tensors of a run from which gradients are asked.
  struct Reached {
    std::vector<at::Tensor> tensors{};  ///< first those of the errors
    std::vector<const RoundingError*> errors{};
    std::vector<std::optional<std::size_t>> biases{};  ///< of each error: the bias of the same sums
  };
  /// What one run backwards says of a rounding.
  struct Contribution {
    std::size_t rounding{};
    std::size_t group{};     ///< of outputs
    at::Tensor errors{};     ///< of each channel the sum of gradient times error
    at::Tensor gradients{};  ///< of each channel what a mean counts; undefined: nothing
  };

  void run_in_float();
  void predict(const NoiseOptions& options);
  [[nodiscard]] std::vector<RoundingError> errors_of(const WatchedModel::Run& run) const;
  [[nodiscard]] Reached reached_by(const std::vector<RoundingError>& errors, bool corrects_means) const;
  void add_contributions(const Reached& reached, std::size_t group, const std::vector<at::Tensor>& gradients,
                         std::vector<Contribution>& contributions);
  /// `mean`: what biases take off each channel; undefined: nothing.
  void add_shares(const Contribution& found, std::span<const std::size_t> outputs, const at::Tensor& mean);
  /// Whether predictions are as far off as is usual.
  [[nodiscard]] bool follows_gradients() const;
  void measure_where_needed();

  std::unique_ptr<WatchedModel> model_;
  std::vector<Sample> samples_;
  std::vector<std::string> outputs_{};
  std::vector<std::size_t> places_{};               ///< of the outputs among all tensors of the result
  std::vector<std::vector<at::Tensor>> wanted_{};   ///< of each sample each output
  std::vector<double> powers_{};                    ///< of each output, over all samples
  std::vector<Shares> shares_{};                    ///< of each rounding
  std::vector<std::vector<double>> uncorrected_{};  ///< the same, were no means taken off
  std::vector<bool> has_gradient_{};                ///< of each rounding
  std::vector<bool> is_lost_{};                     ///< of each rounding: a gradient was not finite
  std::unordered_map<const ir::Node*, std::size_t> index_{};
};

}  // namespace tsq::noise
