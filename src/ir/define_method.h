#pragma once

#include "ir/model.h"

namespace tsq::ir {

/// Gives `module` the method `name` with `body`, whose first input is self, as its code. Nodes that LibTorch
/// has inlined remember the functions that they came from, which may be gone before the module is: here they
/// become nodes of the method.
torch::jit::Function* add_method(torch::jit::Module& module, const std::string& name,
                                 const std::shared_ptr<Graph>& body);

/// Gives `module` the method `name` with `body` as its code and the signature of the user's method. A call of
/// the model's own forward in it becomes the call of the module's.
void define_method(torch::jit::Module& module, const std::string& name, const std::shared_ptr<Graph>& body,
                   const c10::FunctionSchema& schema);

/// Removes the attributes that passes leave on nodes for each other, which begin with "tsq_".
void strip_marks(Graph& graph);

}  // namespace tsq::ir
