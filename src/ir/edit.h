#pragma once

#include <vector>

#include "ir/graph_module.h"

/// Changes of a graph.
namespace tsq::ir {

/// A constant in front of `before`.
Value* constant_before(GraphModule& gm, Node* before, const c10::IValue& value);
/// A tensor as a new attribute of the graph module, read in front of `before`.
Value* attribute_before(GraphModule& gm, Node* before, const std::string& name, const at::Tensor& value);
/// A node of one output in front of `before`.
Value* insert_before(GraphModule& gm, Node* before, const char* kind, const std::vector<Value*>& inputs);

/// Puts the nodes of the branch that a constant chooses in the place of an `if`.
void take_branch(Node* branches, bool condition);

/// Puts a reshape in the place of a view, which refuses the channels-last tensors that convolutions return.
Node* reshape_for_view(GraphModule& gm, Node* view);

}  // namespace tsq::ir
