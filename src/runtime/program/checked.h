#pragma once

#include <cstdint>
#include <optional>

#include "runtime/program/program.h"

/// Arithmetic of sizes that a file or a call gives: there is no result where it would leave 64 bits.
namespace tsq::runtime {

using Checked = std::optional<std::int64_t>;

constexpr Checked checked_sum(Checked a, Checked b) {
  std::int64_t result = 0;
  return !a || !b || __builtin_add_overflow(*a, *b, &result) ? std::nullopt : Checked(result);
}

constexpr Checked checked_difference(Checked a, Checked b) {
  std::int64_t result = 0;
  return !a || !b || __builtin_sub_overflow(*a, *b, &result) ? std::nullopt : Checked(result);
}

constexpr Checked checked_product(Checked a, Checked b) {
  std::int64_t result = 0;
  return !a || !b || __builtin_mul_overflow(*a, *b, &result) ? std::nullopt : Checked(result);
}

/// The product of all sizes.
[[nodiscard]] inline Checked checked_elements(const Shape& shape) {
  Checked count = 1;
  for (const auto size : shape) count = checked_product(count, size);
  return count;
}

/// The most elements of a tensor. Their bytes, and strides times sizes, stay far from the end of 64 bits.
inline constexpr std::int64_t kMostElements = std::int64_t{1} << 59;

/// Can there be a tensor of these sizes? An empty one has strides like one whose empty dimensions have one
/// element.
[[nodiscard]] inline bool is_possible(const Shape& shape) {
  Checked count = 1;
  for (const auto size : shape) {
    if (size < 0) return false;
    count = checked_product(count, size == 0 ? 1 : size);
  }
  return count && *count <= kMostElements;
}

}  // namespace tsq::runtime
