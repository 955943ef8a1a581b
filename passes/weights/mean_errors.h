#pragma once

#include <tsq/quantize.h>

#include <functional>
#include <span>

#include "passes/passes.h"

namespace tsq::detail {

/// What rounding adds to the sums of quantized layers over the samples, layer by layer: the errors of the
/// layers before are taken off first. `exact` computes in float what `reference`, a reference model's graph,
/// computes with rounded weights and activations, `prepared` is what both were made of: their nodes have the
/// same names, and calls that share a weight in it share their error. Empty for a model whose activations are
/// not quantized by calibrated ranges. Source: Nagel et al., Data-Free Quantization Through Weight
/// Equalization and Bias Correction, 2019, appendix D (empirical bias correction). `on_sample` is called
/// after each sample.
passes::MeanErrors mean_errors(const ir::Model& prepared, const ir::Model& exact, const ir::Model& reference,
                               std::span<const Sample> samples, const std::function<void()>& on_sample = {});

}  // namespace tsq::detail
