#pragma once

#include <map>
#include <string>

#include "passes/context/pass_context.h"

namespace tsq::passes {

/// What rounding adds to the sums of quantized layers over context.samples, by Decision::node, layer by
/// layer: the errors of the layers before are taken off first. `exact` computes in float what `rounded`, a
/// reference graph, computes with rounded weights and activations: their nodes have the same names, and calls
/// of one layer share their error. Empty for a model whose activations are not quantized by calibrated
/// ranges. Source: Nagel et al., Data-Free Quantization Through Weight Equalization and Bias Correction,
/// 2019, appendix D (empirical bias correction).
std::map<std::string, at::Tensor> mean_errors(const ir::Model& exact, const ir::Model& rounded,
                                              const PassContext& context);

}  // namespace tsq::passes
