#pragma once

#include <tsq/recipe.h>
#include <tsq/report.h>

#include "ir/graph_module.h"

/// What makes a lowered graph faster or finer.
namespace tsq::passes {

/// Averages of images in float by the kernel that is fastest with them.
///   adaptive_avg_pool2d(dequantize(x), 1)   →   avg_pool2d(dequantize(x), x.size()[2:])
void pool_averages(ir::GraphModule& gm);

/// Kernels that quantize their input at run time use all of its codes, where they are exact with them on
/// `cpu`.
void widen_dynamic_ranges(ir::GraphModule& gm, TargetCpu cpu);

/// Linear layers that quantize one input at run time become one, which quantizes it once.
///   linear_dynamic(x, q), linear_dynamic(x, k)   →   split(linear_dynamic(x, [q; k]))
void join_linear_layers(ir::GraphModule& gm, Report& report);

/// Float convolutions that slide over one channel → linear layers over its windows. Nothing where the model
/// has no quantized operator.
///   conv1d(x, filters)   →   transpose(linear(unfold(x), filters))
void window_filter_banks(ir::GraphModule& gm, const Report& report);

/// Float convolutions with windowed cosines and sines → torch.stft. Nothing where the model has no quantized
/// operator.
///   conv1d(x, basis)   →   cat([real(stft(x)), imag(stft(x))])
void transform_filter_banks(ir::GraphModule& gm, Report& report);

/// Recurrent cells in float call their operator, without the module's questions about shapes, where it takes
/// them as they are.
///   h = GRUCell(x, h)   →   if dim(x) == 2 and dim(h) == 2: h = gru_cell(x, h, …) else: h = GRUCell(x, h)
void call_cells_directly(ir::GraphModule& gm);

/// Quantized convolutions over signals → the same over images of height one, which keep their layout.
///   quantized::conv1d(x)   →   squeeze(quantized::conv2d(unsqueeze(x, 2)), 2)
void signals_as_images(ir::GraphModule& gm, Report& report);

}  // namespace tsq::passes
