#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/jit/api/module.h>

#include <memory>

#include "ir/graph.h"
#include "ir/module_call.h"
#include "ir/weighted.h"

namespace tsq::torchscript {

/// What the operators of a layer read. Those of the weight are null where it is not rounded.
struct LayerValues {
  ir::Value* input{};
  ir::Value* weight{};
  ir::Value* bias{};
  ir::Value* weight_scale{};
  ir::Value* weight_zero_point{};
  ir::Value* weight_axis{};
  ir::Value* weight_dtype{};
};

/// Whether the layer reads a weight that it rounds. FX's reference modules keep weights that become float16
/// as they are: packing rounds them.
[[nodiscard]] bool has_rounded_weight(const ir::ModuleCall& call);
/// A scale or zero point as aten::quantize_per_channel takes it: those of groups one after the other.
[[nodiscard]] at::Tensor flat_qparam(const ir::Weighted& weighted, const at::Tensor& qparam);
/// The operators of a linear layer or convolution, at the graph's insertion point.
ir::Value* write_layer(ir::Graph& graph, const ir::ModuleCall& call, const LayerValues& values);

/// A linear layer or convolution as a module of tsq's own, with forward(input) and the attributes of
/// PyTorch's: weight, bias, and those of its reference modules where the weight is rounded (weight_scale,
/// weight_zero_point, weight_axis, weight_dtype). `axis_is_buffer`: weight_axis is a tensor, as in PyTorch's
/// state_dict, and weight_axis_int the number. `unit`: the home of its class.
torch::jit::Module layer_module(const ir::ModuleCall& call, bool weight_is_parameter, bool axis_is_buffer,
                                const std::shared_ptr<torch::jit::CompilationUnit>& unit);
/// Whether one such module does for both calls.
[[nodiscard]] bool is_same_layer(const ir::ModuleCall& one, const ir::ModuleCall& other);

}  // namespace tsq::torchscript
