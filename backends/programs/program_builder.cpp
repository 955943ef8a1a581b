#include "backends/programs/program_builder.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>

#include "backends/programs/translations.h"
#include "ir/analysis.h"
#include "ir/constants.h"
#include "ir/quantize_operators.h"
#include "operators/dynamic_input.h"

namespace tsq::programs {
namespace {

using ir::Value;
using runtime::Dtype;
using runtime::Extent;

Dtype dtype_of_constant(const at::Tensor& tensor) {
  if (tensor.scalar_type() == at::kByte) return Dtype::U8;
  return tensor.scalar_type() == at::kChar ? Dtype::S8 : Dtype::F32;
}

}  // namespace

std::optional<runtime::Value> rounded_to(const ir::Node* quantize) {
  const auto scale = ir::number_constant(quantize->input(1));
  const auto zero_point = ir::whole_number_constant(quantize->input(2));
  const auto dtype = ir::dtype_constant(quantize->input(3));
  if (!scale || !zero_point || (dtype != at::kQUInt8 && dtype != at::kQInt8)) return std::nullopt;
  return runtime::Value{.dtype = dtype == at::kQUInt8 ? Dtype::U8 : Dtype::S8,
                        .scale = *scale,
                        .zero_point = static_cast<int>(*zero_point)};
}

const Value* ProgramBuilder::resolved(const Value* value) const {
  const auto found = bound_.find(value);
  return found == bound_.end() ? value : found->second;
}

bool ProgramBuilder::is_defined(const Value* value) const {
  value = resolved(value);
  return tensors_.contains(value) || extents_.contains(value) || numbers_.contains(value) ||
         sizes_.contains(value);
}

std::optional<c10::IValue> ProgramBuilder::constant(const Value* value) const {
  value = resolved(value);
  const std::string* attribute = ir::attribute_read(model_, value);
  const bool changes = attribute != nullptr && cache_.written.contains(*attribute);
  return changes ? std::nullopt : ir::held_value(model_, value);
}

at::Tensor ProgramBuilder::constant_tensor(const Value* value) const {
  const auto known = constant(value);
  return known && known->isTensor() ? known->toTensor() : at::Tensor();
}

std::optional<c10::ScalarType> ProgramBuilder::known_dtype(const Value* value) const {
  if (!value->type()->isSubtypeOf(*c10::TensorType::get())) return std::nullopt;
  if (!cache_.dtypes) cache_.dtypes = operators::known_dtypes(model_, operators::Grounds::Calibration);
  return operators::known_dtype(*cache_.dtypes, value);
}

std::optional<int> ProgramBuilder::tensor(const Value* value) {
  value = resolved(value);
  if (const auto known = tensors_.find(value); known != tensors_.end()) return known->second;
  const auto found = read(value);
  if (found) tensors_[value] = *found;
  return found;
}

std::optional<int> ProgramBuilder::read(const Value* value) {
  if (!value->type()->isSubtypeOf(*c10::TensorType::get())) return std::nullopt;
  if (const at::Tensor held = constant_tensor(value); held.defined()) {
    if (held.scalar_type() != at::kFloat || held.is_quantized() || !held.device().is_cpu())
      return std::nullopt;
    return constant_value(held);
  }
  if (known_dtype(value) == c10::ScalarType::Bool) return std::nullopt;
  const ir::Node* node = value->node();
  // A tensor that is quantized elsewhere comes as its codes.
  if (node->kind() == ir::kDequantize && node->input(0)->node()->kind() == ir::kQuantize &&
      rounded_to(node->input(0)->node())) {
    return tensor(node->input(0));
  }
  // What a program reads need not be rounded at run time: it computes in real numbers.
  if (const auto dynamic = operators::dynamic_input(value)) {
    const auto floats = tensor(dynamic->value);
    return floats ? floats : std::optional(add_input(dynamic->value, {}));
  }
  runtime::Value type;
  if (node->kind() == ir::kQuantize) {
    const auto rounded = rounded_to(node);
    if (!rounded) return std::nullopt;
    type = *rounded;
  } else if (!regions_.contains(node) && known_dtype(value) != c10::ScalarType::Float) {
    return std::nullopt;
  }
  return add_input(value, type);
}

int ProgramBuilder::add_input(const Value* value, const runtime::Value& type) {
  inputs_.push_back(value);
  program_.inputs.push_back(new_value(type));
  return program_.inputs.back();
}

std::optional<int> ProgramBuilder::truths(const Value* value) {
  value = resolved(value);
  if (const auto known = tensors_.find(value); known != tensors_.end())
    return are_truths(value) ? std::optional(known->second) : std::nullopt;
  const at::Tensor held = constant_tensor(value);
  if (held.defined() && held.scalar_type() == at::kBool) {
    define_truths(value, constant_value(held.to(at::kByte)));
  } else if (!held.defined() && known_dtype(value) == c10::ScalarType::Bool) {
    define_truths(value, add_input(value, kTruths));
  } else {
    return std::nullopt;
  }
  return tensors_.at(value);
}

std::optional<int> ProgramBuilder::rows(const Value* value) {
  value = resolved(value);
  if (tensors_.contains(value) || constant_tensor(value).defined()) return std::nullopt;
  const auto [known, is_new] = rows_.try_emplace(value, -1);
  if (is_new) known->second = add_input(value, {.dtype = Dtype::I64});
  return known->second;
}

std::optional<std::vector<int>> ProgramBuilder::tensors(const Value* list) {
  list = resolved(list);
  if (list->node()->kind() != c10::prim::ListConstruct) return std::nullopt;
  std::vector<int> values;
  for (const Value* element : list->node()->inputs()) {
    const auto value = tensor(element);
    if (!value) return std::nullopt;
    values.push_back(*value);
  }
  return values;
}

std::optional<Extent> ProgramBuilder::extent(const Value* value) {
  value = resolved(value);
  if (const auto number = ir::whole_number_constant(value)) return Extent(*number);
  if (const auto known = extents_.find(value); known != extents_.end()) return known->second;
  if (value->type()->kind() != c10::TypeKind::IntType) return std::nullopt;
  given_.push_back(value);
  const Extent extent =
      integer({.kind = runtime::IntegerKind::Given, .axis = static_cast<std::int64_t>(given_.size() - 1)});
  program_.given_integers = static_cast<int>(given_.size());
  extents_[value] = extent;
  return extent;
}

bool ProgramBuilder::is_of_shapes(const Value* value) const {
  value = resolved(value);
  if (ir::whole_number_constant(value)) return true;
  const ir::Node* node = value->node();
  if (node->kind() == c10::prim::ListUnpack) node = node->input(0)->node();
  if (node->kind() == c10::aten::size) return true;
  constexpr std::array kFunctions{c10::aten::add,       c10::aten::sub, c10::aten::mul, c10::aten::floordiv,
                                  c10::aten::remainder, c10::prim::min, c10::prim::max};
  return std::ranges::find(kFunctions, node->kind()) != kFunctions.end() &&
         std::ranges::all_of(node->inputs(), [&](const Value* read) {
           return read->type()->kind() == c10::TypeKind::IntType && is_of_shapes(read);
         });
}

std::optional<ComputedNumber> ProgramBuilder::number(const Value* value) {
  value = resolved(value);
  if (const auto known = numbers_.find(value); known != numbers_.end()) return known->second;
  if (ir::number_constant(value)) return std::nullopt;
  if (value->type()->kind() == c10::TypeKind::FloatType) {
    // What has computed it elsewhere is computed here again, from whole numbers, which calls can be given.
    if (value->node()->inputs().empty() || !translate_operator(*this, value->node())) return std::nullopt;
    const auto found = numbers_.find(value);
    return found == numbers_.end() ? std::nullopt : std::optional(found->second);
  }
  if (value->type()->kind() != c10::TypeKind::IntType || !is_of_shapes(value)) return std::nullopt;
  const auto whole = extent(value);
  return whole ? std::optional(ComputedNumber{.number = *whole}) : std::nullopt;
}

std::optional<std::vector<Extent>> ProgramBuilder::extents(const Value* list) {
  list = resolved(list);
  std::vector<Extent> all;
  if (const auto held = constant(list); held && held->isIntList()) {
    for (const std::int64_t number : held->toIntVector()) all.emplace_back(number);
    return all;
  }
  if (list->node()->kind() != c10::prim::ListConstruct) return std::nullopt;
  for (const Value* element : list->node()->inputs()) {
    const auto one = extent(element);
    if (!one) return std::nullopt;
    all.push_back(*one);
  }
  return all;
}

int ProgramBuilder::new_value(const runtime::Value& value) {
  program_.values.push_back(value);
  return static_cast<int>(program_.values.size()) - 1;
}

int ProgramBuilder::write(runtime::Operation operation, const runtime::Value& output) {
  operation.output = new_value(output);
  operation.name = name_;
  program_.operations.push_back(std::move(operation));
  return program_.operations.back().output;
}

int ProgramBuilder::add_constant(const at::Tensor& tensor) {
  const at::Tensor plain = tensor.detach().contiguous();
  const auto next = static_cast<int>(constants_.size());
  const auto [known, is_new] = constant_indexes_.try_emplace(plain.const_data_ptr(), next);
  if (!is_new && constants_[static_cast<std::size_t>(known->second)].sizes() == plain.sizes())
    return known->second;
  constants_.push_back(plain);
  return next;
}

int ProgramBuilder::constant_value(const at::Tensor& tensor) {
  return new_value({.dtype = dtype_of_constant(tensor), .constant = add_constant(tensor)});
}

Extent ProgramBuilder::integer(const runtime::Integer& row) {
  program_.integers.push_back(row);
  return Extent::of_integer(static_cast<int>(program_.integers.size()) - 1);
}

void ProgramBuilder::return_value(const Value* value) {
  int written = tensors_.at(value);
  const bool keeps_bytes = value->node()->kind() == ir::kQuantize || are_truths(value);
  const bool is_input = std::ranges::find(program_.inputs, written) != program_.inputs.end();
  const bool is_constant = program_.values[static_cast<std::size_t>(written)].constant.has_value();
  const bool is_returned = std::ranges::find(program_.outputs, written) != program_.outputs.end();
  if (is_input || is_constant || is_returned || (!keeps_bytes && dtype_of(written) != Dtype::F32)) {
    written = write({.kind = runtime::Kind::Convert, .inputs = {written}},
                    keeps_bytes ? type_of(written) : runtime::Value{});
  }
  program_.outputs.push_back(written);
  outputs_.push_back(value);
}

}  // namespace tsq::programs
