#pragma once

#include "ir/model.h"

namespace tsq::operators {

/// Whether a value goes to a function whose slope has no bound (a logarithm, a root, a reciprocal, a divisor,
/// a power with an exponent below one), also through operators that move values, limit them, add or multiply
/// with constants, or keep small values small (KeepsSmall, powers, sums of squares). A root of a square is
/// none. What rounding takes from a small value there is as large as the function's range.
[[nodiscard]] bool is_amplified(const ir::Model& model, const ir::Value* value);

}  // namespace tsq::operators
