#pragma once

#include <torch/csrc/jit/api/module.h>

#include "passes/capture/capturing.h"

/// Attributes of the user's modules become constants, or attributes of the flat module.
namespace tsq::passes {

/// Attributes become constants when nothing writes them and their type allows, else slots of the flat module.
void visit_get_attr(Capturing& state, ir::Node* node, std::size_t scope);
void visit_set_attr(Capturing& state, ir::Node* node, std::size_t scope);

/// Whether a call gives a module a parameter of its own: tracing hands a parameter that has two owners to one
/// of them as an argument of its forward.
[[nodiscard]] bool has_own_parameter(const Capturing& state, const ir::Node* call,
                                     const torch::jit::Module& module);
/// The module has its parameters without being given them.
void drop_own_parameters(const Capturing& state, ir::Node* call, const torch::jit::Module& module);

}  // namespace tsq::passes
