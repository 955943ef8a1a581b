#pragma once

#include <torch/csrc/jit/api/module.h>

#include <utility>
#include <vector>

namespace tsq::detail {

/// Evaluation mode of a module and all in it for as long as this lives; then each has the mode that it had.
class EvaluationMode {
 public:
  explicit EvaluationMode(const torch::jit::Module& model) {
    for (const torch::jit::Module& module : model.modules()) {
      if (!module.hasattr(kTraining)) continue;
      modes_.emplace_back(module, module.is_training());
      modes_.back().first.setattr(kTraining, false);
    }
  }
  ~EvaluationMode() {
    for (auto& [module, mode] : modes_) module.setattr(kTraining, mode);
  }
  EvaluationMode(const EvaluationMode&) = delete;
  EvaluationMode& operator=(const EvaluationMode&) = delete;

 private:
  static constexpr const char* kTraining = "training";
  std::vector<std::pair<torch::jit::Module, bool>> modes_{};
};

}  // namespace tsq::detail
