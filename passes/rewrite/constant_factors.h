#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <unordered_set>

#include "operators/constant_expressions.h"
#include "passes/context/pass_context.h"

namespace tsq::passes {

/// The constants of a graph that are weights and biases of products. Valid as long as the graph is not
/// changed, but for nodes that are added.
class ConstantFactors {
 public:
  explicit ConstantFactors(const ir::Model& model);

  /// Model::any_spelling: matrices that are computed of constants count, too.
  [[nodiscard]] bool any_spelling() const { return model_.any_spelling; }
  /// A parameter that nobody writes, or a constant.
  [[nodiscard]] std::optional<at::Tensor> tensor(const ir::Value* value) const;
  /// What is computed of constants alone.
  [[nodiscard]] std::optional<c10::IValue> computed(const ir::Value* value) const;
  [[nodiscard]] std::optional<at::Tensor> computed_tensor(const ir::Value* value) const;
  /// The weight of a linear layer, outputs first, out of the second factor.
  [[nodiscard]] std::optional<at::Tensor> weight_of(const ir::Value* factor) const;

 private:
  const ir::Model& model_;
  std::unordered_set<std::string> written_;
  operators::ConstantExpressions expressions_;
};

/// Of float32.
[[nodiscard]] bool is_matrix(const std::optional<at::Tensor>& tensor);
[[nodiscard]] bool is_bias_of(const at::Tensor& bias, const at::Tensor& weight);
/// Whether a value is the number one.
[[nodiscard]] bool is_one(const ir::Value* value);

}  // namespace tsq::passes
