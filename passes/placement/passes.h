#pragma once

#include <tsq/custom_config.h>
#include <tsq/qconfig_mapping.h>
#include <tsq/report.h>

#include <map>
#include <string>

#include "ir/graph_module.h"
#include "passes/match/match_table.h"

/// Which operators stay float, beyond what the table says.
namespace tsq::passes {

/// Operators without a weight that do not lie between quantized ones stay float: they would be rounded and
/// gain no time. Attention's products and softmax stay float, too, filter banks that float operators read,
/// and activations after a layer whose kernel returns float, where float is as fast.
///   sqrt, {add}, sqrt   →   sqrt, add, sqrt
void leave_float_islands(const ir::GraphModule& gm, const PrepareCustomConfig& custom, MatchTable& table);

/// Takes away the observers between a layer whose kernel returns float and an activation that is as fast in
/// float, where the recipe left the activation float for that; where the layer is too small to gain by it,
/// the activation is quantized after all.
///   conv → observer → prelu   →   conv → prelu
void drop_output_observers(ir::GraphModule& gm, Report& report);

/// Takes the QConfig away from operators to which `converted`, a mapping given at convert, gives none (K-02).
/// Throws Error(BadConfig) when it changes one.
void apply_convert_mapping(ir::GraphModule& gm, const QConfigMapping& prepared,
                           const QConfigMapping& converted);

/// Operators that `reasons` names (Decision::node) stay float after all: they read what other float operators
/// return without rounding, and their observers are removed by K-03. Puts the reasons into the report.
void keep_float(ir::GraphModule& gm, const std::map<std::string, std::string>& reasons, Report& report);

/// Layers whose int8 kernel is slower than the float one stay float, where the engine has no other.
///   conv(dequantize(quantize(x)))   →   conv(x)
void leave_slow_layers(ir::GraphModule& gm, Report& report);

/// Layers whose int8 kernel is slower than the float one are left to the engine's other int8 kernel.
///   quantize(conv(dequantize(x)))   does not become   quantized::conv2d(x)
void take_other_kernels(ir::GraphModule& gm);

/// Activations after convolutions whose int8 kernel is slower than the float operator stay float.
///   quantize(elu(dequantize(x)))   does not become   quantized::elu(x)
void activate_in_float(ir::GraphModule& gm, Report& report);

/// Small layers between an average of whole maps and its product with them are computed in float, and what
/// lies between them.
///   mul(dequantize(quantize(sigmoid(conv(average)))), x)   →   mul(sigmoid(linear(average)), x)
void gate_in_float(ir::GraphModule& gm, Report& report);

/// Products of maps with what is made of their averages stay float.
///   quantize(mul(dequantize(gate), dequantize(x)))   does not become   quantized::mul(gate, x)
void multiply_in_float(ir::GraphModule& gm, Report& report);

/// Averages of whole maps that recipe best left in float stay there, between quantized operators as well.
///   quantize(mean(dequantize(x)))   does not become   mean(x)
void average_in_float(ir::GraphModule& gm);

/// Linear layers that return float values and do a small part of the network's work stay float.
///   linear(dequantize(quantize(x)))   →   linear(x), or linear(dequantize(x)) of bytes that a kernel returns
void leave_small_layers(ir::GraphModule& gm, Report& report);

/// The output of a linear layer that only float operators read is not rounded, and neither is it after
/// operators that move it.
///   gelu(dequantize(quantize(linear(x))))   →   gelu(linear(x))
void leave_float_outputs(ir::GraphModule& gm);

}  // namespace tsq::passes
