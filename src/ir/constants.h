#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>

#include "ir/model.h"

/// What values are constants of. All are empty for values of another kind. (torch::jit::constant_as raises
/// for a constant of another type.)
namespace tsq::ir {

/// A constant, also one that is spelt as a list of numbers that are constants.
std::optional<c10::IValue> constant_value(const Value* value);
std::optional<int64_t> whole_number_constant(const Value* value);
/// Whole or not.
std::optional<double> number_constant(const Value* value);
std::optional<bool> flag_constant(const Value* value);
std::optional<c10::ScalarType> dtype_constant(const Value* value);

/// The attribute of the graph's module that a value reads; null for all else.
const std::string* attribute_read(const Model& model, const Value* value);
/// What a value reads of the graph's module, or is a constant of.
std::optional<c10::IValue> held_value(const Model& model, const Value* value);
/// The same; undefined where it is no tensor.
at::Tensor held_tensor(const Model& model, const Value* value);

}  // namespace tsq::ir
