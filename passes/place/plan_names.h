#pragma once

#include <tsq/plan.h>

#include <string>
#include <unordered_map>
#include <vector>

#include "ir/model.h"

/// What a plan says something of, in the order in which it does, and how it calls it. The names of values in
/// a graph change when a model is saved and loaded: those of a plan are made of layers and operators.
namespace tsq::passes {

/// Every node, and those that end the graph and its blocks. Graph order.
[[nodiscard]] std::vector<ir::Node*> nodes_and_ends(const ir::Model& model);

/// The operators that a plan places: those with a record, in the order of the graph.
[[nodiscard]] std::vector<ir::Node*> planned_operators(const ir::Model& model);

/// In the order of the graph.
[[nodiscard]] std::vector<ir::Node*> planned_observers(const ir::Model& model);

/// PyTorch's name of an operator, else TorchScript's: "torch.nn.Conv2d".
[[nodiscard]] std::string operator_name(const ir::Model& model, const ir::Node* node);

/// The names of the planned operators, in their order: "layer1.0/torch.add", "layer1.0/torch.add#1".
[[nodiscard]] std::vector<std::string> operator_names(const ir::Model& model);

/// The names of all nodes: those of the planned operators, which `operators` has in their order, and of
/// others their kind: "prim::Return#0" ends the first block.
[[nodiscard]] std::unordered_map<const ir::Node*, std::string> node_names(
    const ir::Model& model, const std::vector<PlannedOperator>& operators);

/// The name of what an observer looks at: that of the node that makes it, of an input the argument's.
[[nodiscard]] std::string value_name(const ir::Model& model, const ir::Node* observer,
                                     const std::unordered_map<const ir::Node*, std::string>& names);

/// The operators that read what an observer returns, also inside of lists and after other observers.
[[nodiscard]] std::vector<ir::Node*> readers_after(const ir::Node* observer);

}  // namespace tsq::passes
