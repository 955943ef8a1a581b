#include "passes/place/plan_names.h"

#include <fmt/format.h>
#include <tsq/decision.h>

#include <map>

#include "ir/analysis.h"
#include "passes/context/nodes.h"

namespace tsq::passes {
namespace {

void collect_nodes(torch::jit::Block* block, std::vector<ir::Node*>& nodes) {
  for (ir::Node* node : block->nodes()) {
    nodes.push_back(node);
    for (torch::jit::Block* inner : node->blocks()) collect_nodes(inner, nodes);
  }
  nodes.push_back(block->return_node());
}

std::string numbered(const std::string& name, std::size_t number) {
  return number == 0 ? name : fmt::format("{}#{}", name, number);
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

std::vector<std::string> operator_names(const ir::Model& model) {
  std::vector<std::string> names;
  std::map<std::string, std::size_t> counts;
  for (const ir::Node* node : planned_operators(model)) {
    const std::string& layer = ir::layer_of(model, node);
    std::string name = operator_name(model, node);
    if (!layer.empty()) name = fmt::format("{}/{}", layer, name);
    names.push_back(numbered(name, counts[name]++));
  }
  return names;
}

std::unordered_map<const ir::Node*, std::string> node_names(const ir::Model& model,
                                                            const std::vector<PlannedOperator>& operators) {
  std::unordered_map<const ir::Node*, std::string> found;
  const std::vector<ir::Node*> nodes = planned_operators(model);
  for (std::size_t i = 0; i < nodes.size() && i < operators.size(); ++i)
    found.emplace(nodes[i], operators[i].node);
  std::map<std::string, std::size_t> counts;
  for (const ir::Node* node : nodes_and_ends(model)) {
    if (found.contains(node) || ir::is_observer(node)) continue;
    const std::string kind = node->kind().toQualString();
    found.emplace(node, fmt::format("{}#{}", kind, counts[kind]++));
  }
  return found;
}

std::string value_name(const ir::Model& model, const ir::Node* observer,
                       const std::unordered_map<const ir::Node*, std::string>& names) {
  const ir::Value* value = before_observers(observer->input(0));
  const ir::Node* maker = value->node();
  if (maker == model.graph->param_node()) return model.schema.arguments().at(value->offset()).name();
  if (maker->kind() == c10::prim::Param) maker = maker->owningBlock()->owningNode();
  return numbered(names.at(maker), value->offset());
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
