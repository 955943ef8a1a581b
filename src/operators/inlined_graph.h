#pragma once

#include <torch/csrc/jit/api/module.h>

#include <memory>
#include <string>

#include "ir/graph.h"

namespace tsq::operators {

/// A copy of a method's graph with all calls inlined; null where the module has no such method.
std::shared_ptr<ir::Graph> inlined_graph(const torch::jit::Module& module, const std::string& method);

/// The first node of a kind; null where there is none.
const ir::Node* first_of_kind(ir::Graph& graph, c10::Symbol kind);

}  // namespace tsq::operators
