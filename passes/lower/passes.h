#pragma once

#include <tsq/lowering.h>
#include <tsq/report.h>

#include <map>
#include <span>
#include <string>

#include "ir/graph_module.h"

/// Reference patterns become an engine's kernels.
namespace tsq::passes {

/// Nodes of these names (Decision::node) get no kernel: they compute in float between dequantize and
/// quantize, weights rounded. The report gets the reason, which `reasons` has by name.
void keep_reference(ir::GraphModule& gm, const std::map<std::string, std::string>& reasons, Report& report);

/// What became of observed operators that lowering left without a kernel: they are computed in float between
/// dequantize and quantize, and the report gets the reason.
void explain_unlowered(const ir::GraphModule& lowered, Report& report);

/// Clamps that quantizing does by itself are removed; others run on quantized values.
///   quantize(clamp(conv))   →   quantize(conv)
void saturate_clamps(ir::GraphModule& gm);

/// Concatenations of differently quantized tensors become the kernel that requantizes each.
///   quantize(cat([dequantize(a), dequantize(b)]))   →   quantized::cat([a, b])
void requantize_concatenations(ir::GraphModule& gm, Report& report);

/// Operators of the rows that a program registered → kernels of its libraries, weights packed by them. Says
/// in the report which kernel each became. Throws Error(BadConfig) for a kernel or packing operator whose
/// schema does not take the arguments.
void lower_registered(ir::GraphModule& gm, Report& report, std::span<const LoweringRow> rows);

/// Operators whose input is quantized at run time → dynamic kernels of the current engine, weights packed
/// (L-09, L-11). What the engine cannot pack becomes float again, with the reason in the report.
///   linear(dequantize(quantize_per_tensor_dynamic(x)))   →   quantized::linear_dynamic(x, packed)
void lower_dynamic(ir::GraphModule& gm, Report& report);

/// The same for recurrent layers and cells: in their modules, quantized operators with packed weights take
/// the place of the float ones.
///   LSTM(dequantize(quantize_per_tensor_dynamic(x)), hx)   →   LSTM'(x, hx)
void lower_recurrent(ir::GraphModule& gm, Report& report);

/// dequantize – operator – quantize → the kernel of the current engine, weights packed (L-01 … L-16). Says in
/// the report which kernel each operator became.
void lower(ir::GraphModule& gm, Report& report);

/// Embeddings whose tables have qparams → lookups in rows of 8, 4 or 2 bits (L-10). Says in the report which
/// kernel each became, and why others stay float.
void lower_embeddings(ir::GraphModule& gm, Report& report);

/// Linear layers with quantized weights and float input → kernels that read int8 or int4 weights, in
/// bfloat16. Says in the report which kernel each became.
///   y = Linear(x)   →   y = _weight_int8pack_mm(bfloat16(x), weight, scales) + bias
void lower_weight_only_linear(ir::GraphModule& gm, Report& report);

/// Matrix products, convolutions and linear layers that stayed float compute in bfloat16, and what keeps the
/// dtype after them does too; their weights are kept in bfloat16.
///   y = linear(x); z = gelu(y)   →   y = linear(bfloat16(x)); z = float(gelu(y))
void float_in_bfloat16(ir::GraphModule& gm);

/// Linear layers whose output is not quantized → kernels that multiply in int8 and return float.
void lower_float_outputs(ir::GraphModule& gm, Report& report);

/// Weights that are computed from parameters alone are packed now, not at every run (L-07).
void fold_packed_weights(ir::GraphModule& gm);

}  // namespace tsq::passes
