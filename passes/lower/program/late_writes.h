#pragma once

#include "ir/model.h"

namespace tsq::passes {

/// Attributes are written as late as possible, so that a state divides no program: before the next node that
/// reads or writes the same one, that has blocks or that acts on the world.
///   self.h = h; y = linear(x)   →   y = linear(x); self.h = h
bool write_attributes_late(ir::Model& model);

}  // namespace tsq::passes
