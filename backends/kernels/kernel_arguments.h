#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

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

/// What a kernel is given beside its input, a scale and a zero point.
struct KernelArgument {
  ir::Value* value{};  ///< of the operator; null: a constant
  c10::IValue constant{};
  std::string attribute{};  ///< the name of the attribute that holds the constant; empty: none does
};

/// Of a kernel that stands for an operator with one quantized input, out of a module's parameters or a
/// function's arguments; empty when they cannot be told.
[[nodiscard]] std::optional<std::vector<KernelArgument>> kernel_arguments(std::string_view kernel,
                                                                          const ir::Model& model,
                                                                          const ir::Node* op);
/// All inputs of a kernel whose arguments can be told.
std::vector<ir::Value*> kernel_inputs(std::string_view kernel, const KernelSite& site);

/// The kernel for a call: for a batch norm of unknown rank the one that looks at its input, in place of the
/// one for its class.
std::string kernel_of_call(std::string_view kernel, const ir::Model& model, const ir::Node* op);

}  // namespace tsq::kernels
