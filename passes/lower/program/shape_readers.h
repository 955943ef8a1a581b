#pragma once

#include "ir/model.h"

namespace tsq::passes {

/// What reads a tensor's shape reads it of the first tensor that has the same: a program need not return what
/// nobody reads but for its shape.
///   dim(relu(conv(x)))   →   dim(x)
bool read_shapes_early(ir::Model& model);

/// The size of another image that an interpolation takes, size by size: interpolate(x, y.shape[2:]) →
/// interpolate(x, [y.size(2), y.size(3)]). Whether there was one.
bool write_sizes_of_images(ir::Model& model);

}  // namespace tsq::passes
