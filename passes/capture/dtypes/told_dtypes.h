#pragma once

#include <c10/core/ScalarType.h>

#include <cstddef>
#include <optional>
#include <string>

#include "ir/graph.h"

/// What a node is told of dtypes.
namespace tsq::passes {

/// The input of an operator or function that is its argument `name`.
[[nodiscard]] std::optional<std::size_t> argument_position(const ir::Node* node, const std::string& name);
/// Where a node is told the dtype of its result.
[[nodiscard]] std::optional<std::size_t> dtype_position(const ir::Node* node);
/// The dtype that it is told, where that is a constant.
[[nodiscard]] std::optional<c10::ScalarType> constant_dtype(const ir::Node* node);

}  // namespace tsq::passes
