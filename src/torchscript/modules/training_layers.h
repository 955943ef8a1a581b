#pragma once

#include <map>
#include <memory>
#include <string>

#include "ir/model.h"
#include "torchscript/modules/written_module.h"

namespace tsq::torchscript {

/// Whether a call is of a layer that fake-quantizes its weight.
[[nodiscard]] bool is_training_layer(const ir::Model& model, const ir::ModuleCall& call);
/// Whether a class is one of PyTorch's for such layers: torch.ao.nn.qat, torch.ao.nn.intrinsic.qat.
[[nodiscard]] bool is_training_class(Symbol type);
/// The weight that such a layer rounds: a layer's own, a table, or the slopes of a PReLU.
[[nodiscard]] at::Tensor weight_to_round(const ir::ModuleCall& call);

/// Writes the layers of a model that is trained as if it were quantized. Parameters are the given ones, not
/// copies, under PyTorch's names. Layers with the same settings share a class.
class TrainingLayers {
 public:
  /// A convolution or linear layer whose weight `fake_quantize` rounds (QT-30). `forward(input)` is the
  /// layer; `forward_scaled(input, gamma, running_var, eps)` what stands before a batch norm that will be
  /// folded (QT-32): rounded as the folded weight, then divided back. Channels whose gamma is zero are not
  /// scaled, so that nothing becomes NaN (QT-36, QT-106).
  torch::jit::Module weighted(const ir::Weighted& weighted, Symbol type,
                              const torch::jit::Module& fake_quantize);

  /// A leaf of the model's each of whose methods reads `weight` through `fake_quantize`: an embedding
  /// (QT-40), a PReLU. A trace has a method for each call of a module.
  torch::jit::Module reading_rounded(const torch::jit::Module& leaf, const torch::jit::Module& fake_quantize);

  /// A batch norm whose statistics `freeze_bn_stats()` and `update_bn_stats()` hold and release, whatever
  /// train() says (QT-38, QT-96).
  torch::jit::Module batch_norm(const torch::jit::Module& batch_norm, Symbol type);

 private:
  torch::jit::Module instance(const std::string& name, const std::vector<Attribute>& attributes,
                              const std::string& source);

  struct Class {
    std::shared_ptr<torch::jit::CompilationUnit> unit{};
    c10::ClassTypePtr type{};
  };
  std::map<std::pair<std::string, const c10::Type*>, Class> classes_{};  ///< by source and last attribute
};

}  // namespace tsq::torchscript
