#pragma once

#include <span>

#include "runtime/program/program.h"

namespace tsq::runtime {

/// A model for one set of shapes. The numbers of its operations are known, and slices lie within their
/// tensors.
struct ResolvedModel {
  Model model{};
  std::vector<Shape> shapes{};  ///< of every value
};

/// Resolves a validated model, given the shapes and integers of a call. Throws ProgramError where an
/// operation cannot take what it gets.
ResolvedModel resolve(const Model& model, std::span<const Shape> inputs,
                      std::span<const std::int64_t> integers);

}  // namespace tsq::runtime
