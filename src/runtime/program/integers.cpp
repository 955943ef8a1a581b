#include "runtime/program/integers.h"

#include <algorithm>

#include "runtime/program/checked.h"
#include "runtime/program/error.h"
#include "runtime/program/operation_table.h"

namespace tsq::runtime {
namespace {

std::int64_t floor_division(std::int64_t left, std::int64_t right) {
  const auto quotient = left / right;
  return left % right != 0 && (left < 0) != (right < 0) ? quotient - 1 : quotient;
}

std::int64_t floor_remainder(std::int64_t left, std::int64_t right) {
  const auto remainder = left % right;
  return remainder != 0 && (remainder < 0) != (right < 0) ? remainder + right : remainder;
}

/// None if the result leaves 64 bits.
Checked result_of(IntegerKind kind, std::int64_t left, std::int64_t right) {
  switch (kind) {
    case IntegerKind::Add:
      return checked_sum(left, right);
    case IntegerKind::Subtract:
      return checked_difference(left, right);
    case IntegerKind::Multiply:
      return checked_product(left, right);
    case IntegerKind::FloorDivide:
      if (right == -1) return checked_difference(0, left);
      return floor_division(left, right);
    case IntegerKind::Remainder:
      return right == -1 ? 0 : floor_remainder(left, right);
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
  if (kind != IntegerKind::Index && kind != IntegerKind::Border) return true;
  return right >= 0 && -right <= left && (kind == IntegerKind::Index ? left < right : left <= right);
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

std::int64_t Integers::computed(int row, const Integer& integer) const {
  if (integer.kind == IntegerKind::Given) return given_[static_cast<std::size_t>(integer.axis)];
  if (integer.kind == IntegerKind::Size) return size(row, integer);
  const auto left = *known_number(integer.left);
  const auto right = *known_number(integer.right);
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

std::optional<std::int64_t> Integers::known_number(const Extent& extent) const {
  return extent.is_computed() ? known_[static_cast<std::size_t>(extent.integer)] : extent.number;
}

/// Rows may stand in chains of any length: those that are wanted wait in a list, not in calls of this.
std::int64_t Integers::number_of(const Extent& extent) {
  if (const auto number = known_number(extent)) return *number;
  std::vector<Extent> wanted{extent};
  while (!wanted.empty()) {
    const auto waiting = wanted.size();
    const Extent last = wanted.back();
    if (!known_number(last)) {
      const auto& integer = program_.integers[static_cast<std::size_t>(last.integer)];
      for (const auto& operand : {integer.left, integer.right}) {
        if (!known_number(operand)) wanted.push_back(operand);
      }
      if (wanted.size() > waiting) continue;
      known_[static_cast<std::size_t>(last.integer)] = computed(last.integer, integer);
    }
    wanted.pop_back();
  }
  return *known_number(extent);
}

}  // namespace tsq::runtime
