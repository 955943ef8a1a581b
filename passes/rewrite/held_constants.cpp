#include "passes/rewrite/held_constants.h"

#include "ir/constants.h"

namespace tsq::passes {

std::optional<double> constant_number(const Model& model, const Value* value) {
  const auto constant = ir::held_value(model, value);
  if (!constant) return std::nullopt;
  if (constant->isScalar()) return constant->toScalar().toDouble();
  if (!constant->isTensor()) return std::nullopt;
  const at::Tensor& tensor = constant->toTensor();
  const bool is_one = tensor.defined() && tensor.numel() == 1 && tensor.dim() <= 1;
  return is_one ? std::optional(tensor.item().toDouble()) : std::nullopt;
}

int64_t vector_size(const Model& model, const Value* value) {
  const at::Tensor tensor = ir::held_tensor(model, value);
  const bool is_vector = tensor.defined() && tensor.dim() == 1 && tensor.is_floating_point();
  return is_vector ? tensor.size(0) : 0;
}

}  // namespace tsq::passes
