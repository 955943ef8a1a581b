#pragma once

#include "ir/model.h"

namespace tsq::kernels {

/// Where a kernel goes: `op` is the float operator, `input` its quantized input, `quantize` the node that
/// returns scale and zero point; new nodes are put in front of `quantize`.
struct KernelSite {
  ir::Model& model;
  ir::Node* quantize{};
  ir::Node* op{};
  ir::Value* input{};
};

/// The inputs of a kernel that stands for an operator with one quantized input, out of a module's parameters
/// or a function's arguments; empty when they cannot be told.
std::optional<std::vector<ir::Value*>> kernel_inputs(std::string_view kernel, const KernelSite& site);

/// The kernel for a call: for a batch norm of unknown rank the one that looks at its input, in place of the
/// one for its class.
std::string kernel_of_call(std::string_view kernel, const ir::Model& model, const ir::Node* op);

}  // namespace tsq::kernels
