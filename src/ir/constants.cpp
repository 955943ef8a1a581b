#include "ir/constants.h"

#include <torch/csrc/jit/ir/constants.h>

namespace tsq::ir {

namespace {

/// The constants of a list that is spelt out; empty where one of them is none.
template <typename Number>
std::optional<c10::IValue> list_constant(const Node* list, std::optional<Number> (*constant)(const Value*)) {
  std::vector<Number> numbers;
  for (const Value* element : list->inputs()) {
    const auto number = constant(element);
    if (!number) return std::nullopt;
    numbers.push_back(*number);
  }
  return numbers;
}

}  // namespace

std::optional<c10::IValue> constant_value(const Value* value) {
  if (value->node()->kind() != c10::prim::ListConstruct) return torch::jit::toIValue(value);
  const auto type = value->type()->cast<c10::ListType>();
  const bool has_floats = type && type->getElementType()->kind() == c10::TypeKind::FloatType;
  return has_floats ? list_constant(value->node(), number_constant)
                    : list_constant(value->node(), whole_number_constant);
}

std::optional<int64_t> whole_number_constant(const Value* value) {
  const auto constant = torch::jit::toIValue(value);
  return constant && constant->isInt() ? std::optional(constant->toInt()) : std::nullopt;
}

std::optional<double> number_constant(const Value* value) {
  const auto constant = torch::jit::toIValue(value);
  const bool is_number = constant && constant->isScalar() && !constant->toScalar().isComplex();
  return is_number ? std::optional(constant->toScalar().toDouble()) : std::nullopt;
}

std::optional<bool> flag_constant(const Value* value) {
  const auto constant = torch::jit::toIValue(value);
  return constant && constant->isBool() ? std::optional(constant->toBool()) : std::nullopt;
}

std::optional<c10::ScalarType> dtype_constant(const Value* value) {
  const auto number = whole_number_constant(value);
  return number ? std::optional(static_cast<c10::ScalarType>(*number)) : std::nullopt;
}

const std::string* attribute_read(const Model& model, const Value* value) {
  const Node* node = value->node();
  const bool reads = node->kind() == c10::prim::GetAttr && node->input(0) == model.graph->inputs().at(0);
  return reads ? &node->s(c10::attr::name) : nullptr;
}

std::optional<c10::IValue> held_value(const Model& model, const Value* value) {
  if (const std::string* name = attribute_read(model, value)) return model.attributes.attr(*name);
  return constant_value(value);
}

at::Tensor held_tensor(const Model& model, const Value* value) {
  const auto held = held_value(model, value);
  return held && held->isTensor() ? held->toTensor() : at::Tensor();
}

}  // namespace tsq::ir
