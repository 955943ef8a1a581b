#include "passes/rewrite/held_constants.h"

#include "ir/analysis.h"
#include "ir/constants.h"

namespace tsq::passes {
namespace {

bool is_one_number(const c10::IValue& value) {
  if (!value.isTensor()) return false;
  const at::Tensor& tensor = value.toTensor();
  return tensor.defined() && tensor.numel() == 1 && tensor.dim() <= 1;
}

}  // namespace

std::optional<double> constant_number(const Model& model, const Value* value) {
  const auto constant = ir::held_value(model, value);
  if (!constant || !(constant->isScalar() || is_one_number(*constant))) return std::nullopt;
  const std::string* name = ir::attribute_read(model, value);
  if (name != nullptr && ir::written_attributes(model).contains(*name)) return std::nullopt;
  return constant->isScalar() ? constant->toScalar().toDouble() : constant->toTensor().item().toDouble();
}

int64_t vector_size(const Model& model, const Value* value) {
  const at::Tensor tensor = ir::held_tensor(model, value);
  const bool is_vector = tensor.defined() && tensor.dim() == 1 && tensor.is_floating_point();
  return is_vector ? tensor.size(0) : 0;
}

}  // namespace tsq::passes
