#pragma once

#include <tsq/backend_config.h>
#include <tsq/custom_config.h>
#include <tsq/report.h>

#include <span>

#include "ir/graph_module.h"
#include "passes/observe/observer_result.h"

/// Observers become quantize and dequantize.
namespace tsq::passes {

/// Values that all branches of an `if` dequantize alike are dequantized after it.
///   if c: a = dequantize(p) else: a = dequantize(q)   →   if c: b = p else: b = q; a = dequantize(b)
void dequantize_behind_branches(ir::GraphModule& gm);

/// Observers → quantize / dequantize pairs; weighted modules of observed patterns get weight qparams (K-01 …
/// K-13).
///   obs(x)   →   dequantize(quantize_per_tensor(x, scale, zero_point, dtype))
void convert(ir::GraphModule& gm, std::span<const ObserverResult> observers, const BackendConfig& backend,
             const PrepareCustomConfig& custom);

/// Zero padding before a convolution becomes the convolution's own; asymmetric padding by a larger kernel.
///   conv3x3(pad(x, [0, 1, 0, 1]))   →   conv4x4(x), padding 1
void fold_padding(ir::GraphModule& gm, Report& report);

/// Says in the report which operators compute with integers, and which no data reached. `prepared` is the
/// graph with the observers that `results` are of.
void explain_calibrated(const ir::GraphModule& prepared, std::span<const ObserverResult> results,
                        Report& report);

}  // namespace tsq::passes
