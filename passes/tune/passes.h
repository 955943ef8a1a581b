#pragma once

#include "passes/context/pass_context.h"

/// What makes a lowered graph faster or finer.
namespace tsq::passes {

/// Averages of images in float by the kernel that is fastest with them.
///   adaptive_avg_pool2d(dequantize(x), 1)   →   avg_pool2d(dequantize(x), x.size()[2:])
bool pool_averages(ir::Model& model, const PassContext& context);

/// Kernels that quantize their input at run time use all of its codes, where they are exact with them on
/// the target's processor.
bool widen_dynamic_ranges(ir::Model& model, const PassContext& context);

/// Linear layers that quantize one input at run time become one, which quantizes it once.
///   linear_dynamic(x, q), linear_dynamic(x, k)   →   split(linear_dynamic(x, [q; k]))
bool join_linear_layers(ir::Model& model, const PassContext& context);

/// Float convolutions with windowed cosines and sines → torch.stft. Nothing where the model has no quantized
/// operator.
///   conv1d(x, basis)   →   cat([real(stft(x)), imag(stft(x))])
bool transform_filter_banks(ir::Model& model, const PassContext& context);

/// Float convolutions that slide over one channel → linear layers over its windows. Nothing where the model
/// has no quantized operator.
///   conv1d(x, filters)   →   transpose(linear(unfold(x), filters))
bool window_filter_banks(ir::Model& model, const PassContext& context);

/// Recurrent cells in float call their operator, without the module's questions about shapes, where it takes
/// them as they are.
///   h = GRUCell(x, h)   →   if dim(x) == 2 and dim(h) == 2: h = gru_cell(x, h, …) else: h = GRUCell(x, h)
bool call_cells_directly(ir::Model& model, const PassContext& context);

/// Quantized convolutions over signals → the same over images of height one, which keep their layout.
///   quantized::conv1d(x)   →   squeeze(quantized::conv2d(unsqueeze(x, 2)), 2)
bool signals_as_images(ir::Model& model, const PassContext& context);

/// Samples without the dimension of a batch: kernels that quantize their input when they run take batches
/// only, and whether there is a batch is known only then.
///   y = linear_dynamic(x, packed, true)   →   lacks_batch = dim(x) < 2
///                                             batch = unsqueeze(x, 0) if lacks_batch else x
///                                             z = linear_dynamic(batch, packed, true)
///                                             y = squeeze(z, 0) if lacks_batch else z
bool batch_dynamic_inputs(ir::Model& model, const PassContext& context);

/// Kernels of linear layers that return [0, channels] of an empty tensor of more dimensions
/// (kernels::kernel_faults): the dimensions come back.
///   y = linear(x, packed)   →   z = linear(x, packed); y = unflatten(z, 0, …) if numel(x) == 0 else z
bool shape_empty_results(ir::Model& model, const PassContext& context);

/// Matrix products, convolutions and linear layers that stayed float compute in bfloat16, and what keeps the
/// dtype after them does too; their weights are kept in bfloat16.
///   y = linear(x); z = gelu(y)   →   y = linear(bfloat16(x)); z = float(gelu(y))
bool float_in_bfloat16(ir::Model& model, const PassContext& context);

}  // namespace tsq::passes
