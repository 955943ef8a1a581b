#include "passes/place/plan_names.h"

#include <fmt/format.h>
#include <tsq/decision.h>

#include <map>

#include "ir/analysis.h"

namespace tsq::passes {
namespace {

void collect_nodes(torch::jit::Block* block, std::vector<ir::Node*>& nodes) {
  for (ir::Node* node : block->nodes()) {
    nodes.push_back(node);
    for (torch::jit::Block* inner : node->blocks()) collect_nodes(inner, nodes);
  }
  nodes.push_back(block->return_node());
}

}  // namespace

std::vector<ir::Node*> nodes_and_ends(const ir::Model& model) {
  std::vector<ir::Node*> nodes;
  collect_nodes(model.graph->block(), nodes);
  return nodes;
}

std::vector<ir::Node*> planned_operators(const ir::Model& model) {
  std::vector<ir::Node*> nodes = ir::nodes_in_order(*model.graph);
  std::erase_if(nodes, [&](const ir::Node* node) {
    return ir::is_observer(node) || ir::record_of(model, node) == nullptr;
  });
  return nodes;
}

std::vector<ir::Node*> planned_observers(const ir::Model& model) {
  std::vector<ir::Node*> nodes = ir::nodes_in_order(*model.graph);
  std::erase_if(nodes, [](const ir::Node* node) { return !ir::is_observer(node); });
  return nodes;
}

std::string operator_name(const ir::Model& model, const ir::Node* node) {
  const Decision* decision = ir::decision_of(model, node);
  if (decision != nullptr && !decision->op.empty()) return decision->op;
  const auto targets = ir::targets(model, node);
  return targets.empty() ? node->kind().toQualString() : std::string(targets.front().name);
}

std::string plan_name(const ir::Node* node) {
  return node->outputs().empty() ? node->kind().toQualString() : node->outputs().front()->debugName();
}

std::unordered_map<const ir::Node*, std::string> reader_names(const ir::Model& model,
                                                              const std::vector<std::string>& names) {
  std::unordered_map<const ir::Node*, std::string> found;
  const std::vector<ir::Node*> operators = planned_operators(model);
  for (std::size_t i = 0; i < operators.size() && i < names.size(); ++i)
    found.emplace(operators[i], names[i]);
  std::map<std::string, std::size_t> of_kind;
  for (const ir::Node* node : nodes_and_ends(model)) {
    if (found.contains(node) || ir::is_observer(node)) continue;
    const std::string kind = node->kind().toQualString();
    found.emplace(node, fmt::format("{}#{}", kind, of_kind[kind]++));
  }
  return found;
}

std::vector<ir::Node*> readers_after(const ir::Node* observer) {
  std::vector<ir::Node*> readers;
  for (ir::Node* user : ir::users(observer->output())) {
    if (ir::is_observer(user)) {
      for (ir::Node* reader : readers_after(user)) readers.push_back(reader);
    } else {
      readers.push_back(user);
    }
  }
  return readers;
}

}  // namespace tsq::passes
