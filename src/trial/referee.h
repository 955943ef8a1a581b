#pragma once

#include <torch/csrc/jit/api/module.h>
#include <tsq/trial.h>

#include <optional>
#include <vector>

#include "trial/results.h"

namespace tsq::detail {

/// Judges candidates against one model on the same samples, which that model runs only once. Whoever calls it
/// has set the quantized engine.
class Referee {
 public:
  /// `model` is right; it is not changed.
  Referee(const torch::jit::Module& model, std::vector<Sample> samples);

  /// See try_model.
  [[nodiscard]] Trial judge(const torch::jit::Module& candidate) const;
  [[nodiscard]] const std::vector<Sample>& samples() const noexcept { return samples_; }

 private:
  [[nodiscard]] const at::IValue& wanted(std::size_t index) const;
  void try_sample(torch::jit::Module& loaded, std::size_t index, ErrorSums& sums, Trial& trial) const;

  torch::jit::Module model_;
  std::vector<Sample> samples_;
  mutable std::vector<std::optional<at::IValue>>
      wanted_;  ///< what `model_` returns for each sample, once run
  bool free_shapes_{false};
};

}  // namespace tsq::detail
