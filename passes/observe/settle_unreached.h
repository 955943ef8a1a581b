#pragma once

#include <tsq/report.h>

#include <span>

#include "ir/graph_module.h"
#include "passes/observe/observer_result.h"
#include "passes/observe/passes.h"

namespace tsq::passes {

/// Operators that no calibration data reached have no ranges: those in branches that no sample entered.
/// Another call of a layer that was calibrated keeps the int8 weight: a linear layer finds the range of its
/// input when the model runs, a convolution has the ranges of the call that was calibrated. All else stays
/// float, with the reason in the report. Nothing where nothing was calibrated.
///   if c: y = obs1(linear1(x)) else: y = obs2(linear2(x)), no data in obs2
///     →   if c: y = obs1(linear1(x)) else: y = linear2(x)
void settle_unreached(ir::GraphModule& gm, std::span<const torch::jit::Module> observers, Report& report);

/// The same for methods beside forward alone, operator by operator: an operator that lacks one of its ranges
/// has none.
void settle_unreached_methods(ir::GraphModule& gm, std::span<const torch::jit::Module> observers,
                              Report& report);

/// An observer that has no place in the graph any more needs no data.
void excuse_unused(const ir::GraphModule& gm, std::span<ObserverResult> results);

}  // namespace tsq::passes
