#pragma once

#include <ATen/core/jit_type.h>

#include <optional>
#include <string>

#include "passes/capture/dtypes/replaced_dtypes.h"

/// The source of modules that cast the tensors at the inputs and outputs of a model.
namespace tsq::passes {

/// Statements that make a tensor `x` of a replaced dtype a float one.
[[nodiscard]] std::string cast_to_float(const Dtypes& replaced);
/// Statements that make a float tensor `x` one of `dtype`.
[[nodiscard]] std::string cast_from_float(c10::ScalarType dtype);
/// Statements that make a float tensor `x` one of the dtype of `like`, or of the wider of that and `known`.
[[nodiscard]] std::string cast_to_dtype_of_like(const Dtypes& replaced, std::optional<c10::ScalarType> known);

/// The methods of a module that casts the tensors in a value `x` of some type by such statements, containers
/// looked through; empty where they cannot be.
[[nodiscard]] std::optional<std::string> cast_module_source(const c10::TypePtr& type,
                                                            const std::string& statements);
/// The same for a tensor `x` and another one, `like`.
[[nodiscard]] std::optional<std::string> cast_like_module_source(const c10::TypePtr& type,
                                                                 const std::string& statements);

}  // namespace tsq::passes
