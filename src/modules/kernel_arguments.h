#pragma once

#include "ir/graph_module.h"

namespace tsq::modules {

/// Where a kernel goes: `op` is the float operator, `input` its quantized input, `quantize` the node that
/// gives scale and zero point; new nodes are put in front of `quantize`.
struct KernelSite {
  ir::GraphModule& gm;
  ir::Node* quantize{};
  ir::Node* op{};
  ir::Value* input{};
};

/// The inputs of a kernel that stands for an operator with one quantized input, out of a module's parameters
/// or a function's arguments; empty when they cannot be told.
std::optional<std::vector<ir::Value*>> kernel_inputs(std::string_view kernel, const KernelSite& site);

/// The kernel for a call: for a batch norm of unknown rank the one that looks at its input, in place of the
/// one for its class.
std::string kernel_of_call(std::string_view kernel, const ir::GraphModule& gm, const ir::Node* op);

/// The slope of a LeakyReLU: module, function, or member of a fused module.
double negative_slope(const ir::ModuleCall& leaky_relu);

/// A constant that an operator is called with: a module's attribute, or a function's argument by its name in
/// the schema. Lists of constants are constants.
std::optional<c10::IValue> argument_constant(const ir::GraphModule& gm, const ir::Node* op,
                                             const std::string& name);
/// The argument of a function by its name in the schema; null when it has none of that name.
ir::Value* argument_named(const ir::Node* op, const std::string& name);
/// A constant, also one spelt as a list of constants.
std::optional<c10::IValue> constant_value(const ir::Value* value);

/// A constant in front of `before`.
ir::Value* constant_before(ir::GraphModule& gm, ir::Node* before, const c10::IValue& value);
/// A tensor as a new attribute of the graph module, read in front of `before`.
ir::Value* attribute_before(ir::GraphModule& gm, ir::Node* before, const std::string& name,
                            const at::Tensor& value);
/// A node of one output in front of `before`.
ir::Value* insert_before(ir::GraphModule& gm, ir::Node* before, const char* kind,
                         const std::vector<ir::Value*>& inputs);

/// Puts a reshape in the place of a view, which refuses the channels-last tensors that convolutions give.
ir::Node* reshape_for_view(ir::GraphModule& gm, ir::Node* view);

}  // namespace tsq::modules
