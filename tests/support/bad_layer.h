#pragma once

#include <torch/csrc/jit/api/module.h>
#include <tsq/quantize.h>
#include <tsq/sample.h>

#include <vector>

namespace tsq::testing {

/// Convolutions "first", "bad", "third" and "last", with weights as large as trained ones. Rounding the
/// weight of "bad" destroys it: one of its input channels is always 0, and the weights for it leave no codes
/// for the others.
torch::jit::Module network_with_bad_layer();
/// Of that network.
std::vector<Sample> images_for_bad_layer();
/// It, prepared for x86 with the mapping of the recipe, and calibrated.
Prepared calibrated_with_bad_layer(const PrepareOptions& options = {.target_cpu = TargetCpu::Vnni});

}  // namespace tsq::testing
