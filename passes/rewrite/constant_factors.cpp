#include "passes/rewrite/constant_factors.h"

#include <ATen/ATen.h>

#include "ir/analysis.h"
#include "ir/constants.h"

namespace tsq::passes {
namespace {

/// Whether a transposition of a matrix names its two dimensions.
bool swaps_both(const Node* transpose) {
  const auto first = ir::whole_number_constant(transpose->input(1));
  const auto second = ir::whole_number_constant(transpose->input(2));
  return first && second && (*first - *second) % 2 != 0;
}

}  // namespace

ConstantFactors::ConstantFactors(const ir::Model& model)
    : model_(model), written_(ir::written_attributes(model)), expressions_(model) {}

std::optional<at::Tensor> ConstantFactors::tensor(const Value* value) const {
  const std::string* name = ir::attribute_read(model_, value);
  if (name != nullptr && written_.contains(*name)) return std::nullopt;
  const at::Tensor found = ir::held_tensor(model_, value);
  return found.defined() ? std::optional(found) : std::nullopt;
}

std::optional<c10::IValue> ConstantFactors::computed(const Value* value) const {
  return expressions_.value_of(value);
}

std::optional<at::Tensor> ConstantFactors::computed_tensor(const Value* value) const {
  const auto found = computed(value);
  return found && found->isTensor() ? std::optional(found->toTensor()) : std::nullopt;
}

std::optional<at::Tensor> ConstantFactors::weight_of(const Value* factor) const {
  if (const auto matrix = tensor(factor); is_matrix(matrix)) return matrix->detach().t();
  const Node* node = factor->node();
  const bool is_transpose =
      node->kind() == c10::aten::t || (node->kind() == c10::aten::transpose && swaps_both(node));
  if (is_transpose) {
    const auto matrix = tensor(node->input(0));
    return is_matrix(matrix) ? matrix : std::nullopt;
  }
  const auto matrix = any_spelling() ? computed_tensor(factor) : std::nullopt;
  return is_matrix(matrix) ? std::optional(matrix->detach().t()) : std::nullopt;
}

bool is_matrix(const std::optional<at::Tensor>& tensor) {
  return tensor && tensor->dim() == 2 && tensor->scalar_type() == at::kFloat;
}

bool is_bias_of(const at::Tensor& bias, const at::Tensor& weight) {
  return bias.dim() == 1 && bias.size(0) == weight.size(0) && bias.scalar_type() == at::kFloat;
}

bool is_one(const Value* value) { return ir::number_constant(value) == 1; }

}  // namespace tsq::passes
