#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/jit/api/module.h>
#include <tsq/sample.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ir/model.h"
#include "torchscript/kept_state.h"

namespace tsq::noise {

/// A tensor that may be rounded, and its channels.
struct Channels {
  at::Tensor tensor{};
  std::int64_t axis{};
};

/// A weight of the module that runs.
struct WatchedWeight {
  at::Tensor used{};  ///< the parameter itself
  at::Tensor exact{};
  at::Tensor rounded{};
  std::int64_t axis{};  ///< of its rows
  at::Tensor bias{};    ///< the parameter that is added to the rows' sums; undefined: not known
};

/// A calibrated model that computes in float, in which roundings can be switched on one by one: those of
/// observed values, and those of weights. Not to be used by several threads at once.
class WatchedModel {
 public:
  /// Its observers have been asked (ObserverEntry::result), or are asked now. Shares nothing that changes
  /// with the model, whose nodes it names.
  /// `rounded`, where it is not null, has the weights as they are rounded: its layers have the same names.
  explicit WatchedModel(const ir::Model& calibrated, const ir::Model* rounded = nullptr);

  /// The observers that round, and the layers whose weights are rounded, in the order of the graph.
  [[nodiscard]] const std::vector<const ir::Node*>& roundings() const noexcept { return nodes_; }

  /// One call of forward.
  struct Run {
    std::vector<std::pair<std::string, at::Tensor>> outputs{};  ///< all tensors, by their places
    /// What each rounding would round: a value as often as it came, or weights. With gradients: leaves, or
    /// part of the graph of the outputs.
    std::vector<std::vector<Channels>> rounded{};
  };
  /// Throws what LibTorch throws.
  [[nodiscard]] Run with_gradients(const Sample& sample);
  /// The same without.
  [[nodiscard]] Run in_float(const Sample& sample);

  /// All tensors of the outputs, without gradients, with these roundings switched on.
  [[nodiscard]] std::vector<std::pair<std::string, at::Tensor>> with_roundings(const Sample& sample,
                                                                               const std::vector<bool>& on);

  /// How far apart the codes of a value are; infinite where one number does not tell.
  [[nodiscard]] double step_of(std::size_t rounding) const;
  /// Of a layer: the parameter that its sums begin with. Undefined where there is none.
  [[nodiscard]] at::Tensor bias_of(std::size_t rounding) const;
  /// Of a layer that computes sums of products: the mean of what rounding its weight adds to each of its
  /// sums, by the mean of each channel of what it reads. Undefined for others.
  [[nodiscard]] at::Tensor mean_error_of_sums(std::size_t rounding, const at::Tensor& channel_means) const;

  /// What rounding changes of one of a run's tensors: rounded - exact.
  [[nodiscard]] at::Tensor error_of(std::size_t rounding, std::size_t place, const at::Tensor& exact) const;
  /// Whether calls depend on those before them. Each call begins with the state of the float model.
  [[nodiscard]] bool keeps_state() const { return state_->is_read(); }

 private:
  /// A value has a watch; a layer has weights.
  struct Part {
    std::optional<torch::jit::Module> watch{};
    std::int64_t axis_of_three{};  ///< the channels of a value of three dimensions
    std::vector<WatchedWeight> weights{};
    std::int64_t groups{0};  ///< of a layer that computes sums of products; 0: another
  };

  [[nodiscard]] Run recorded(Sample arguments);
  [[nodiscard]] std::vector<std::pair<std::string, at::Tensor>> call(Sample sample);

  std::vector<const ir::Node*> nodes_{};
  std::vector<Part> parts_{};
  torch::jit::Module module_{};
  std::optional<torchscript::KeptState> state_{};
};

}  // namespace tsq::noise
