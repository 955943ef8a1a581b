#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "ir/model.h"

/// What a plan says something of, in the order in which it does. The names of values change when a model is
/// saved and loaded; the order of operators does not.
namespace tsq::passes {

/// Every node, and those that end the graph and its blocks. Graph order.
[[nodiscard]] std::vector<ir::Node*> nodes_and_ends(const ir::Model& model);

/// The operators that a plan places: those with a record, in the order of the graph.
[[nodiscard]] std::vector<ir::Node*> planned_operators(const ir::Model& model);

/// In the order of the graph.
[[nodiscard]] std::vector<ir::Node*> planned_observers(const ir::Model& model);

/// PyTorch's name of an operator, else TorchScript's: "torch.nn.Conv2d".
[[nodiscard]] std::string operator_name(const ir::Model& model, const ir::Node* node);

/// The name of an operator's first output.
[[nodiscard]] std::string plan_name(const ir::Node* node);

/// The names of nodes that may read a rounded value: `names` are those of the planned operators, in their
/// order. Others are called after their kind: "prim::Return#0" ends the first block.
[[nodiscard]] std::unordered_map<const ir::Node*, std::string> reader_names(
    const ir::Model& model, const std::vector<std::string>& names);

/// The operators that read what an observer returns, also inside of lists and after other observers.
[[nodiscard]] std::vector<ir::Node*> readers_after(const ir::Node* observer);

}  // namespace tsq::passes
