#pragma once

#include <optional>

#include "passes/context/pass_context.h"

namespace tsq::passes {

/// The number that a value is, or that a tensor of one, which broadcasts to anything, holds; empty for all
/// else.
[[nodiscard]] std::optional<double> constant_number(const ir::Model& model, const ir::Value* value);

/// The size of a constant vector of floating point; 0 for all else.
[[nodiscard]] int64_t vector_size(const ir::Model& model, const ir::Value* value);

}  // namespace tsq::passes
