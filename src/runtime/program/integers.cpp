#include "runtime/program/integers.h"

#include <algorithm>

#include "runtime/program/error.h"
#include "runtime/program/operation_table.h"

namespace tsq::runtime {
namespace {

std::int64_t floor_division(std::int64_t left, std::int64_t right) {
  const auto quotient = left / right;
  return left % right != 0 && (left < 0) != (right < 0) ? quotient - 1 : quotient;
}

/// None if the result leaves 64 bits.
std::optional<std::int64_t> result_of(IntegerKind kind, std::int64_t left, std::int64_t right) {
  std::int64_t result = 0;
  switch (kind) {
    case IntegerKind::Add:
      return __builtin_add_overflow(left, right, &result) ? std::nullopt : std::optional(result);
    case IntegerKind::Subtract:
      return __builtin_sub_overflow(left, right, &result) ? std::nullopt : std::optional(result);
    case IntegerKind::Multiply:
      return __builtin_mul_overflow(left, right, &result) ? std::nullopt : std::optional(result);
    case IntegerKind::FloorDivide:
      if (right == -1) return result_of(IntegerKind::Subtract, 0, left);
      return floor_division(left, right);
    case IntegerKind::Remainder:
      return right == -1 ? 0 : left - floor_division(left, right) * right;
    case IntegerKind::Minimum:
      return std::min(left, right);
    case IntegerKind::Maximum:
      return std::max(left, right);
    case IntegerKind::Index:
    case IntegerKind::Border:
      return left < 0 ? left + right : left;
    case IntegerKind::Given:
    case IntegerKind::Size:
      break;
  }
  return std::nullopt;
}

/// Is there such a place in a dimension, or such a border between two?
bool is_within(IntegerKind kind, std::int64_t left, std::int64_t right) {
  if (kind == IntegerKind::Index) return -right <= left && left < right;
  return kind != IntegerKind::Border || (-right <= left && left <= right);
}

}  // namespace

void Integers::fail(int row, const std::string& problem) {
  throw ProgramError("integer " + std::to_string(row), problem,
                     "call the program with shapes like those that it was made for");
}

std::int64_t Integers::size(int row, const Integer& integer) const {
  const auto& shape = shapes_[static_cast<std::size_t>(integer.value)];
  const auto rank = static_cast<std::int64_t>(shape.size());
  const auto axis = integer.axis < 0 ? integer.axis + rank : integer.axis;
  if (axis < 0 || axis >= rank) fail(row, "its axis is none of " + to_text(shape));
  return shape[static_cast<std::size_t>(axis)];
}

std::int64_t Integers::computed(int row, const Integer& integer) {
  if (integer.kind == IntegerKind::Given) return given_[static_cast<std::size_t>(integer.axis)];
  if (integer.kind == IntegerKind::Size) return size(row, integer);
  const auto left = number_of(integer.left);
  const auto right = number_of(integer.right);
  const bool divides = integer.kind == IntegerKind::FloorDivide || integer.kind == IntegerKind::Remainder;
  if (divides && right == 0) fail(row, "it divides by 0");
  if (!is_within(integer.kind, left, right)) {
    throw ProgramError("the call", "index " + std::to_string(left) + " is out of range",
                       "the dimension has the size " + std::to_string(right));
  }
  const auto result = result_of(integer.kind, left, right);
  if (!result) fail(row, "it leaves 64 bits");
  return *result;
}

std::int64_t Integers::number_of(const Extent& extent) {
  if (!extent.is_computed()) return extent.number;
  auto& known = known_[static_cast<std::size_t>(extent.integer)];
  if (!known) known = computed(extent.integer, program_.integers[static_cast<std::size_t>(extent.integer)]);
  return *known;
}

}  // namespace tsq::runtime
