#pragma once

#include <span>

#include "runtime/program/program.h"

namespace tsq::runtime {

/// A model for one set of shapes. The numbers of its operations are known, and slices lie within their
/// tensors. Where a slice begins may change with the integers of a call and change no shape: `begin` is its
/// place in this call, and `begin.integer` its place among such slices.
struct ResolvedModel {
  Model model{};
  std::vector<Shape> shapes{};        ///< of every value
  std::vector<std::size_t> moving{};  ///< operations of the model before: its moving slices
};

/// The first place of a slice and the one after its last, in a dimension of this size. PyTorch's rule:
/// negative numbers count from the end, and what lies outside is moved to the border.
struct Range {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};
Range clamped_range(std::int64_t begin, std::int64_t end, std::int64_t size);
/// How many places a slice takes.
std::int64_t places_of(Range range, std::int64_t step);

/// Which rows of the integers change with those that a call brings, its tensors being alike.
std::vector<bool> rows_of_call(const Program& program);

/// Resolves a validated model, given the shapes and integers of a call. Throws ProgramError where an
/// operation cannot take what it gets.
ResolvedModel resolve(const Model& model, std::span<const Shape> inputs,
                      std::span<const std::int64_t> integers);

}  // namespace tsq::runtime
