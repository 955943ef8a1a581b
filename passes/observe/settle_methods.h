#pragma once

#include <torch/csrc/jit/api/module.h>
#include <tsq/report.h>

#include <span>

#include "ir/graph_module.h"

namespace tsq::passes {

/// Methods beside forward that no calibration data reached have the ranges of forward where they run the same
/// code of the same modules. What forward does not run is as settle_unreached leaves it.
///   forward: y = linear(obs1(x)); encode: y = linear(obs2(x)), no data in obs2   →   encode: y =
///   linear(obs1(x))
void settle_methods(ir::GraphModule& gm, std::span<const torch::jit::Module> observers, Report& report);

}  // namespace tsq::passes
