#pragma once

#include "backends/programs/program_builder.h"
#include "ir/model.h"
#include "operators/weighted.h"

namespace tsq::programs {

/// Writes what a node computes into a program, as the reference form has it, in real numbers. False, and the
/// program is of no use then, where it has no operation for the node or for its arguments.
bool translate(ProgramBuilder& program, const ir::Node* node);

/// The operations by which a program computes a node by itself: none where it has none for it.
[[nodiscard]] std::optional<std::vector<runtime::Kind>> operations_for(const ir::Model& model,
                                                                       const ir::Node* node,
                                                                       const ProgramBuilder::Regions& regions,
                                                                       TranslationCache& cache);
/// Whether a program has what a node computes by itself: the same question, where nothing is to be written.
[[nodiscard]] bool computes(const ir::Model& model, const ir::Node* node,
                            const ProgramBuilder::Regions& regions, TranslationCache& cache);

/// A convolution or a linear layer, with weights of its own or given as constants.
bool translate_layer(ProgramBuilder& program, const ir::Node* node);

/// A module or function of torch.nn that is more than a list of operators: it looks at its input's shape.
bool translate_module(ProgramBuilder& program, const ir::Node* node);

/// Whether a node calls torch.nn.functional.interpolate itself, with all its arguments.
[[nodiscard]] bool is_interpolate(const ir::Model& model, const ir::Node* node);
/// torch.nn.functional.interpolate or torch.nn.Upsample of an image.
bool translate_interpolation(ProgramBuilder& program, const ir::Node* node);

/// Rows of a table in float or in bytes.
bool translate_embedding(ProgramBuilder& program, const ir::Node* node);

/// What the weights of a recurrent module are rounded to; before convert in the same form, but for one that
/// is placed in float. Empty where they are not.
[[nodiscard]] std::vector<QParams> recurrent_qparams(const ir::Model& model, const ir::Node* layer);
/// An LSTM or GRU with int8 weights.
bool translate_recurrent(ProgramBuilder& program, const ir::Node* node);
/// Whether a program can have it, whatever its input is made of.
[[nodiscard]] bool is_recurrent_of_programs(const ir::Model& model, const ir::Node* node);

/// A batch norm with the statistics of training: a factor and an addend for each channel.
int write_batch_norm(ProgramBuilder& program, const operators::BatchNorm& norm, int input);
/// To `size`, or to one value for each channel.
int write_adaptive_avg_pool(ProgramBuilder& program, const std::vector<std::int64_t>& size, int input);

/// An operator of ATen that has no weights.
bool translate_operator(ProgramBuilder& program, const ir::Node* node);

}  // namespace tsq::programs
