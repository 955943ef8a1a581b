#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ir/model.h"

namespace tsq::ir {

/// `prim::tsq_forward`: the call of the model's own forward in one of its other methods. Input 0 is self.
/// emit() makes it a call of what forward has become.
extern const c10::Symbol kForwardKind;
/// `prim::tsq_methods`: a block for each method beside forward that passes see, at the end of the graph. The
/// inputs of a block are the method's, without self. Nothing in it runs when forward does.
extern const c10::Symbol kMethodsKind;

[[nodiscard]] bool is_forward_call(const Node* node);

/// Puts the methods that call layers into the graph: model.methods keeps their names and schemas, without a
/// graph.
void join_methods(Model& model);
/// Takes them out again.
void split_methods(Model& model);
/// The node of the methods; null where none is in the graph.
[[nodiscard]] Node* methods_node(const Model& model);
/// The method in whose block a node is; empty: forward.
[[nodiscard]] std::string method_of(const Node* node);

/// A node and every node of the blocks that it holds, in order.
void collect_nodes(Node* node, std::vector<Node*>& nodes);

/// Where a node's code stands in the model: the same number for the nodes of all calls of a module's method,
/// in forward and in other methods. Empty for nodes that are not the model's.
[[nodiscard]] std::optional<int64_t> place_of(const Node* node);
void set_place(Node* node, int64_t place);
/// What takes the place of a node in the graph stands where that did.
void take_place(Node* to, const Node* from);

}  // namespace tsq::ir
