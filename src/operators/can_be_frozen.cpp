#include "operators/can_be_frozen.h"

#include <algorithm>
#include <set>
#include <string>

#include "ir/analysis.h"
#include "operators/inlined_graph.h"

namespace tsq::operators {
namespace {

/// "a.running_mean"; empty for what is no attribute.
std::string path_of(const ir::Value* value) {
  const ir::Node* node = value->node();
  if (node->kind() != c10::prim::GetAttr) return {};
  const std::string owner = path_of(node->input());
  return owner.empty() ? node->s(c10::attr::name) : owner + "." + node->s(c10::attr::name);
}

}  // namespace

bool can_be_frozen(const torch::jit::Module& module) {
  const auto graph = inlined_graph(module, "forward");
  if (!graph) return true;
  const auto nodes = ir::nodes_in_order(*graph);
  std::set<std::string> updated;
  for (const ir::Node* node : nodes) {
    for (const std::size_t index : ir::updated_statistics(node).inputs) {
      if (ir::writes_input(node, index)) updated.insert(path_of(node->input(index)));
    }
  }
  const auto is_updated_by = [](const torch::jit::Use& use) {
    return ir::writes_input(use.user, use.offset);
  };
  return std::ranges::none_of(nodes, [&](const ir::Node* node) {
    return node->kind() == c10::prim::GetAttr && updated.contains(path_of(node->output())) &&
           !std::ranges::all_of(node->output()->uses(), is_updated_by);
  });
}

}  // namespace tsq::operators
