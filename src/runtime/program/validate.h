#pragma once

#include "runtime/program/program.h"

namespace tsq::runtime {

/// Throws ProgramError unless every index, dtype, scale and constant of the model fits: what can be known
/// without the shapes of the inputs.
void validate(const Model& model);

}  // namespace tsq::runtime
