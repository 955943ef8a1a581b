#include "operators/inlined_graph.h"

#include <algorithm>

#include "ir/analysis.h"
#include "ir/edit.h"

namespace tsq::operators {

std::shared_ptr<ir::Graph> inlined_graph(const torch::jit::Module& module, const std::string& method) {
  const auto found = module.find_method(method);
  if (!found) return nullptr;
  auto graph = torch::jit::toGraphFunction(found->function()).graph()->copy();
  ir::inline_calls(*graph);
  return graph;
}

const ir::Node* first_of_kind(ir::Graph& graph, c10::Symbol kind) {
  const auto nodes = ir::nodes_in_order(graph);
  const auto found = std::ranges::find(nodes, kind, [](const ir::Node* node) { return node->kind(); });
  return found == nodes.end() ? nullptr : *found;
}

}  // namespace tsq::operators
