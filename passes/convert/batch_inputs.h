#pragma once

#include <torch/csrc/jit/api/module.h>
#include <tsq/report.h>

#include <span>

#include "ir/graph_module.h"

namespace tsq::passes {

/// Layers and pools that saw samples without the dimension of a batch, which their float operators take and
/// their int8 kernels do not, read and return a batch of one; operators on values one by one between them do
/// too. Where calibration saw both, what is in front of a sample's own dimensions becomes the batch. Norms of
/// samples stay float.
///   obs1(conv(obs0(x)))   →   obs1(squeeze(obs1(conv(obs0(unsqueeze(obs0(x), 0)))), 0))
/// `observers`: the calibrated instances of gm.observers.
void batch_inputs(ir::GraphModule& gm, std::span<const torch::jit::Module> observers, Report& report);

}  // namespace tsq::passes
