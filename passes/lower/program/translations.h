#pragma once

#include "ir/model.h"
#include "operators/weighted.h"
#include "passes/lower/program/program_builder.h"

namespace tsq::passes {

/// Writes what a node computes into a program, as the reference form has it, in real numbers. False, and the
/// program is of no use then, where it has no operation for the node or for its arguments.
bool translate(ProgramBuilder& program, const ir::Node* node);

/// A convolution or a linear layer, with weights of its own or given as constants.
bool translate_layer(ProgramBuilder& program, const ir::Node* node);

/// A module or function of torch.nn that is more than a list of operators: it looks at its input's shape.
bool translate_module(ProgramBuilder& program, const ir::Node* node);

/// The size of another image that an interpolation takes, size by size: interpolate(x, y.shape[2:]) →
/// interpolate(x, [y.size(2), y.size(3)]). Whether there was one.
bool write_sizes_of_images(ir::Model& model);
/// torch.nn.functional.interpolate or torch.nn.Upsample of an image.
bool translate_interpolation(ProgramBuilder& program, const ir::Node* node);

/// Rows of a table in float or in bytes.
bool translate_embedding(ProgramBuilder& program, const ir::Node* node);

/// An LSTM or GRU with int8 weights.
bool translate_recurrent(ProgramBuilder& program, const ir::Node* node);
/// Whether a program can have it, whatever its input is made of.
[[nodiscard]] bool is_recurrent_of_programs(const ir::ModuleCall& call);

/// A batch norm with the statistics of training: a factor and an addend for each channel.
int write_batch_norm(ProgramBuilder& program, const operators::BatchNorm& norm, int input);
/// To `size`, or to one value for each channel.
int write_adaptive_avg_pool(ProgramBuilder& program, const std::vector<std::int64_t>& size, int input);

/// An operator of ATen that has no weights.
bool translate_operator(ProgramBuilder& program, const ir::Node* node);

}  // namespace tsq::passes
