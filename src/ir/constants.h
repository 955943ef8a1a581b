#pragma once

#include <torch/csrc/jit/ir/constants.h>

#include <optional>

#include "ir/model.h"

namespace tsq::ir {

/// The whole number that a value is a constant of; empty for all else. (torch::jit::constant_as raises for a
/// constant of another type.)
inline std::optional<int64_t> whole_number_constant(const Value* value) {
  const auto constant = torch::jit::toIValue(value);
  return constant && constant->isInt() ? std::optional(constant->toInt()) : std::nullopt;
}

}  // namespace tsq::ir
