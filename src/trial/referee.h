#pragma once

#include <c10/core/QEngine.h>
#include <torch/csrc/jit/api/module.h>
#include <tsq/trial.h>

#include <optional>
#include <vector>

#include "trial/results.h"

namespace tsq::detail {

/// Judges candidates against one model on the same samples, which that model runs only once.
class Referee {
 public:
  /// `model` is right; it is not changed. Both are run with `engine`, for which candidates are loaded.
  Referee(const torch::jit::Module& model, at::QEngine engine, std::vector<Sample> samples);

  /// See try_model.
  [[nodiscard]] Trial judge(const torch::jit::Module& candidate) const;
  [[nodiscard]] const std::vector<Sample>& samples() const noexcept { return samples_; }

 private:
  /// Whether values of `model_` decide about shapes.
  [[nodiscard]] bool has_free_shapes() const;
  [[nodiscard]] const at::IValue& wanted(std::size_t index) const;
  void try_sample(const torch::jit::Module& loaded, std::size_t index, ErrorSums& sums, Trial& trial) const;

  torch::jit::Module model_;
  at::QEngine engine_;
  std::vector<Sample> samples_;
  mutable std::vector<std::optional<at::IValue>>
      wanted_;                                 ///< what `model_` returns for each sample, once run
  mutable std::optional<bool> free_shapes_{};  ///< asked for where shapes differ: it reads the whole graph
};

}  // namespace tsq::detail
