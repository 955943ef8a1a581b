#pragma once

#include <tsq/backend_config.h>
#include <tsq/custom_config.h>
#include <tsq/equalization.h>
#include <tsq/report.h>

#include <span>

#include "ir/graph_module.h"
#include "passes/match/match_table.h"

/// Observers, and what calibration leaves in them.
namespace tsq::passes {

/// Puts observers into the graph (D-01 … D-37), marks the nodes of observed patterns for convert, and adds an
/// entry per operator to the report.
void observe(ir::GraphModule& gm, const MatchTable& table, const BackendConfig& backend,
             const PrepareCustomConfig& custom, Report& report);

/// Puts an observer of channels before each convolution and linear layer that is observed, and after each
/// convolution that float operators read.
///   x → observer → conv   →   x → observer → channel observer → conv
void observe_channels(ir::GraphModule& gm);

/// Puts an observer of the products of what a row of the weight meets before convolutions and linear layers.
///   x → observer → conv   →   x → observer → conv, with im2col(x) → product observer beside it
void observe_input_products(ir::GraphModule& gm);

/// Puts an equalization observer after the input observer of each observed layer that `mapping` names
/// (Q-01 … Q-04). Says in the report which layers cannot be equalized, and why.
///   x → observer → linear   →   x → observer → equalization observer → linear
void equalize(ir::GraphModule& gm, const MatchTable& table, const EqualizationMapping& mapping,
              Report& report);

/// Puts an observer of channels in front of the linear layers that read a LayerNorm's output, one for all
/// that read the same (SmoothQuant). Says in the report which layers are smoothed.
///   ln → observer → q, k, v   →   ln → observer → equalization observer → q, k, v
void smooth(ir::GraphModule& gm, const MatchTable& table, Report& report);

/// One range where the branches of an `if` meet, so that the value stays quantized after it.
///   if c: a = obs1(x) else: a = obs2(y); obs3(a)   →   if c: a = obs1(x) else: a = obs1(y); a
void join_branches(ir::GraphModule& gm);

/// Takes what the observers of channels have found to their layers, and the observers away. The calls of one
/// layer are given what all of them have read.
void take_channel_statistics(ir::GraphModule& gm, std::span<const torch::jit::Module> observers);

/// Observers in front of activations that saturate see what differs to these alone: values clamped by nodes
/// that prepare never saw, which drop_observed_clamps takes away after calibration.
///   conv → observer → hardswish   →   conv → clamp(-3) → observer → hardswish
void clamp_observed(ir::GraphModule& gm);
void drop_observed_clamps(ir::GraphModule& gm);

/// Takes what the observers of products have found to their layers, and the observers away.
void take_input_products(ir::GraphModule& gm, std::span<const torch::jit::Module> observers);

}  // namespace tsq::passes
