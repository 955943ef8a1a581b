#pragma once

#include "runtime/program/program.h"

namespace tsq::runtime {

/// What the operation `index` of a validated model writes, given the shapes of the values before it. `plain`
/// is that operation with all numbers known. Throws ProgramError if it cannot take what it gets.
Shape shape_of(const Model& model, std::size_t index, const Operation& plain,
               const std::vector<Shape>& shapes);

/// The numbers of a plain operation.
Shape numbers_of(const Extents& extents);

/// The strides, paddings or dilations of an operation: `standard` for each spatial dimension if none is
/// written.
Shape spatial(const Shape& written, std::size_t dimensions, std::int64_t standard);

/// Padding at the end of a pool, with what `ceil_mode` adds to it.
Shape pool_padding_end(const Operation& operation, const Shape& input, const Shape& output);

/// The axis counted from the front.
std::size_t axis_of(const Operation& operation, std::size_t rank);

}  // namespace tsq::runtime
