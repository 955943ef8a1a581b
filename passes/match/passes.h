#pragma once

#include <tsq/backend_config.h>
#include <tsq/qconfig_mapping.h>

#include "ir/graph_module.h"
#include "passes/match/match_table.h"

/// Patterns of the backend's table and of the recipe.
namespace tsq::passes {

/// Replaces each match of a fusion row by the row's fused module, longest pattern first, then table order
/// (C-01, C-02, C-11).
///   bn = BatchNorm2d(conv); relu = ReLU(bn)   →   conv = ConvReLU2d(x)
void fuse(ir::GraphModule& gm, const BackendConfig& backend);

/// Walks the graph in reverse order; the first row that matches wins (C-01 … C-10). Looks every node's
/// QConfig up (B-04 … B-16).
MatchTable match(const ir::GraphModule& gm, const QConfigMapping& mapping, const BackendConfig& backend);

/// Clamps (relu, relu6, hardtanh, clamp) join the match of the operator before them, whose range is then
/// observed after the clamp.
///   {conv}, {hardtanh}   →   {conv, hardtanh}
void absorb_clamps(const ir::GraphModule& gm, MatchTable& table);

/// Concatenations of values that others read too do not share one range with all of their inputs.
void separate_concatenations(const ir::GraphModule& gm, MatchTable& table);

/// Sums and products with a number do not share the range of what they are computed from. After
/// absorb_clamps: their kernels do not saturate, so that no clamp may join them.
void separate_scalar_arithmetic(MatchTable& table);

}  // namespace tsq::passes
