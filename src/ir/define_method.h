#pragma once

#include <ATen/core/function_schema.h>
#include <torch/csrc/jit/api/module.h>

#include <memory>
#include <string>

#include "ir/graph.h"

namespace tsq::ir {

/// Nodes that LibTorch has inlined remember the functions that they came from, which may be gone before the
/// module is, and which operator callbacks and exceptions ask for their names: here all nodes come to belong
/// to the method that they are in. Which modules they were called in stays. To be called after
/// torch::jit::freeze, before the module runs.
void own_call_stacks(torch::jit::Module& module);

/// Gives `module` the method `name` with `body`, whose first input is self, as its code, and its nodes to the
/// method (own_call_stacks).
torch::jit::Function* add_method(torch::jit::Module& module, const std::string& name,
                                 const std::shared_ptr<Graph>& body);

/// Gives `module` the method `name` with `body` as its code and the signature of the user's method. A call of
/// the model's own forward in it becomes the call of the module's.
void define_method(torch::jit::Module& module, const std::string& name, const std::shared_ptr<Graph>& body,
                   const c10::FunctionSchema& schema);

/// Removes the attributes that passes leave on nodes for each other, which begin with "tsq_"; the numbers of
/// values stay where calibration is to find them.
void strip_marks(Graph& graph, bool keeps_value_numbers = false);

}  // namespace tsq::ir
