#pragma once

#include "ir/model.h"
#include "passes/lower/program/program_builder.h"

namespace tsq::passes {

/// Writes what a node computes into a program, as the reference form has it, in real numbers. False, and the
/// program is of no use then, where it has no operation for the node or for its arguments.
bool translate(ProgramBuilder& program, const ir::Node* node);

/// A convolution or a linear layer, with weights of its own or given as constants.
bool translate_layer(ProgramBuilder& program, const ir::Node* node);

/// An operator of ATen that has no weights.
bool translate_operator(ProgramBuilder& program, const ir::Node* node);

}  // namespace tsq::passes
