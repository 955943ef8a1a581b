#pragma once

#include <span>

#include "runtime/program/program.h"

namespace tsq::runtime {

/// The shape of every value of a validated model, given those of its inputs. Throws ProgramError where an
/// operation cannot take what it gets.
std::vector<Shape> infer_shapes(const Model& model, std::span<const Shape> inputs);

/// The strides, paddings or dilations of an operation: `standard` for each spatial dimension if none is
/// written.
Shape spatial(const Shape& written, std::size_t dimensions, std::int64_t standard);

/// Padding at the end of a pool, with what `ceil_mode` adds to it.
Shape pool_padding_end(const Operation& operation, const Shape& input, const Shape& output);

/// The axis counted from the front.
std::size_t axis_of(const Operation& operation, std::size_t rank);

}  // namespace tsq::runtime
