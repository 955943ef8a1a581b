#include "passes/capture/dtypes/float_tensors.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <string>
#include <utility>

namespace tsq::passes {
namespace {

bool holds_tensors(const c10::TypePtr& type) {
  if (type->kind() == c10::TypeKind::TensorType) return true;
  return std::ranges::any_of(type->containedTypes(), holds_tensors);
}

}  // namespace

c10::IValue FloatTensors::of(const c10::IValue& value) {
  if (value.isTensor()) return of(value.toTensor());
  if (value.isTuple()) return of_tuple(value);
  if (value.isList()) {
    const c10::impl::GenericList list = value.toList().copy();
    for (std::size_t i = 0; i < list.size(); ++i) list.set(i, of(list.get(i)));
    return list;
  }
  if (value.isGenericDict()) {
    const c10::impl::GenericDict dict = value.toGenericDict().copy();
    for (const auto& entry : dict) entry.setValue(of(entry.value()));
    return dict;
  }
  if (value.isModule()) replace_in(value.toModule());
  return value;
}

c10::IValue FloatTensors::of_tuple(const c10::IValue& tuple) {
  std::vector<c10::IValue> elements;
  for (const c10::IValue& element : tuple.toTupleRef().elements()) elements.push_back(of(element));
  const auto type = tuple.type()->cast<c10::TupleType>();
  return type->schema() != nullptr ? c10::ivalue::Tuple::createNamed(std::move(elements), type)
                                   : c10::ivalue::Tuple::create(std::move(elements));
}

at::Tensor FloatTensors::of(const at::Tensor& tensor) {
  if (!tensor.defined() || tensor.layout() != at::kStrided) return tensor;
  const c10::ScalarType dtype = replacement(replaced_, tensor.scalar_type());
  if (dtype == tensor.scalar_type()) return tensor;
  at::Tensor& made =
      made_[{tensor.const_data_ptr(), tensor.scalar_type(), tensor.sizes().vec(), tensor.strides().vec()}];
  if (!made.defined()) made = tensor.detach().to(dtype).requires_grad_(tensor.requires_grad());
  return made;
}

void FloatTensors::replace_in(torch::jit::Module module) {
  const auto type = module.type();
  for (std::size_t i = 0; i < type->numAttributes(); ++i) {
    const std::string& name = type->getAttributeName(i);
    const c10::IValue value = module.attr(name);
    if (!holds_tensors(type->getAttribute(i)) && !value.isModule()) continue;
    module.setattr(name, of(value));
  }
}

void FloatTensors::replace_in(ir::Attributes& attributes) {
  for (const ir::Attribute& each : attributes) {
    if (holds_tensors(each.type) || each.value.isModule()) attributes.setattr(each.name, of(each.value));
  }
}

}  // namespace tsq::passes
