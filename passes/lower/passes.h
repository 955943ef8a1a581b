#pragma once

#include "passes/context/pass_context.h"

/// Reference patterns become an engine's kernels.
namespace tsq::passes {

/// Nodes that context.lowering.kept_reference names (Decision::node) get no kernel: they compute in float
/// between dequantize and quantize, weights rounded.
bool keep_reference(ir::Model& model, const PassContext& context);

/// Clamps that quantizing does by itself are removed; others run on quantized values.
///   quantize(clamp(conv))   →   quantize(conv)
bool saturate_clamps(ir::Model& model, const PassContext& context);

/// Regions of operators that fused programs compute, with a layer in int8 in each → one program each, which
/// libtsq_runtime runs. It says in the report which operators are in one. Throws Error(Unsupported) where
/// the library is not loaded.
///   quantize(conv(dequantize(quantize(x))))   →   tsq::run(program, [x], [])
bool cut_programs(ir::Model& model, const PassContext& context);

/// Concatenations of differently quantized tensors become the kernel that requantizes each.
///   quantize(cat([dequantize(a), dequantize(b)]))   →   quantized::cat([a, b])
bool requantize_concatenations(ir::Model& model, const PassContext& context);

/// Operators of the rows that a program registered → kernels of its libraries, weights packed by them. Says
/// in the report which kernel each became. Throws Error(BadConfig) for a kernel or packing operator whose
/// schema does not take the arguments.
bool lower_registered(ir::Model& model, const PassContext& context);

/// Operators whose input is quantized at run time → dynamic kernels of the engine, weights packed
/// (L-09, L-11). What the engine cannot pack becomes float again, with the reason in the report.
///   linear(dequantize(quantize_per_tensor_dynamic(x)))   →   quantized::linear_dynamic(x, packed)
bool lower_dynamic(ir::Model& model, const PassContext& context);

/// The same for recurrent layers and cells: in their modules, quantized operators with packed weights take
/// the place of the float ones.
///   LSTM(dequantize(quantize_per_tensor_dynamic(x)), hx)   →   LSTM'(x, hx)
bool lower_recurrent(ir::Model& model, const PassContext& context);

/// dequantize – operator – quantize → the kernel of the engine, weights packed (L-01 … L-16). Says in
/// the report which kernel each operator became.
bool lower_static(ir::Model& model, const PassContext& context);

/// Linear layers and convolutions whose output is not quantized → kernels that multiply in int8 and return
/// float.
bool lower_float_outputs(ir::Model& model, const PassContext& context);

/// Embeddings whose tables have qparams → lookups in rows of 8, 4 or 2 bits (L-10). Says in the report which
/// kernel each became, and why others stay float.
bool lower_embeddings(ir::Model& model, const PassContext& context);

/// The packed weight of a linear layer with the codes of a table is made of the
/// table's rows when the file is loaded, so that the file holds them once.
///   packed   →   tied.packed, where tied is saved as rows and bias
bool hold_tied_tables_once(ir::Model& model, const PassContext& context);

/// Linear layers with quantized weights and float input → kernels that read int8 or int4 weights, in
/// bfloat16. Says in the report which kernel each became.
///   y = Linear(x)   →   y = _weight_int8pack_mm(bfloat16(x), weight, scales) + bias
bool lower_weight_only_linear(ir::Model& model, const PassContext& context);

}  // namespace tsq::passes
