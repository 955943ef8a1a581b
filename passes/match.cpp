// Which operators form which pattern, under which QConfig.

#include <algorithm>
#include <map>
#include <tuple>

#include "match/matcher.h"
#include "passes/passes.h"

namespace tsq::passes {
namespace {

using ir::GraphModule;
using ir::Node;
using ir::Value;

/// B-16: a fused class takes the object type entry of its first member.
QConfigMapping with_fused_types(const GraphModule& gm, QConfigMapping mapping) {
  for (const ir::ModuleCall& call : gm.calls) {
    if (call.members.empty()) continue;
    for (const auto& [type, qconfig] : mapping.object_type_qconfigs()) {
      if (type != call.members.front().type || !qconfig) continue;
      mapping.set_object_type(call.type, MaybeQConfig(qconfig));
      break;
    }
  }
  return mapping;
}

std::string parent_of(const std::string& path) {
  const auto dot = path.rfind('.');
  return dot == std::string::npos ? std::string() : path.substr(0, dot);
}

/// Counts uses of a target within a module, for the (module name, object type, order) level (B-08).
class OrderCounter {
 public:
  int next(const std::string& parent, Symbol target) { return counts_[{parent, std::string(target.name)}]++; }

 private:
  std::map<std::pair<std::string, std::string>, int> counts_;
};

QConfigQuery query_for(const GraphModule& gm, const Node* node, const std::vector<Symbol>& targets,
                       OrderCounter& order) {
  QConfigQuery query;
  query.targets = targets;
  if (ir::is_module_call(node)) {
    const ir::ModuleCall& call = ir::call_of(gm, node);
    query.is_module = true;
    query.module_path = call.path;
    query.parent_path = parent_of(call.path);
    query.order_type = call.members.empty() ? call.type : call.members.front().type;
    query.order_index = order.next(query.parent_path, *query.order_type);
    return query;
  }
  const ir::Scope& scope = ir::scope_of(gm, node);
  query.module_path = scope.path;
  query.module_type = scope.type;
  query.parent_path = scope.path;
  if (!targets.empty()) query.order_index = order.next(scope.path, targets.front());
  return query;
}

/// Whether no tensor reaches a value: shapes, numbers, what is computed from them
/// (all_node_args_have_no_tensors).
bool has_no_tensors(const Value* value) {
  if (!ir::holds_tensor(value)) return true;
  const Node* node = value->node();
  if (ir::is_constant(value)) return false;
  if (!node->kind().is_aten() || node->inputs().empty()) return false;
  const auto operands = ir::operands(node);
  return std::all_of(operands.begin(), operands.end(),
                     [](const Value* operand) { return has_no_tensors(operand); });
}

int tensor_argument_count(const Node* root) {
  int count = 0;
  for (const auto& argument : ir::arguments(root)) {
    if (!argument.is_list && !has_no_tensors(argument.value)) ++count;
  }
  return count;
}

bool shares_observer(const BackendPatternConfig& row, const Node* root) {
  ObservationType type = row.observation_type;
  if (!row.num_tensor_args_to_observation_type.empty()) {
    const auto found = row.num_tensor_args_to_observation_type.find(tensor_argument_count(root));
    if (found != row.num_tensor_args_to_observation_type.end()) type = found->second;
  }
  return type == ObservationType::OUTPUT_SHARE_OBSERVER_WITH_INPUT;
}

}  // namespace

MatchTable match(const GraphModule& gm, const QConfigMapping& user_mapping, const BackendConfig& backend) {
  MatchTable table;
  match::Matcher matcher(gm);
  const QConfigMapping mapping = with_fused_types(gm, user_mapping);
  std::vector<Node*> nodes = ir::nodes_in_order(*gm.graph);
  OrderCounter order;
  for (const Node* node : nodes) {
    if (node->kind() == c10::prim::Constant) continue;
    table.qconfig_of[node] = find_qconfig(mapping, query_for(gm, node, matcher.targets(node), order));
  }
  const auto rows = match::sorted_rows(backend);
  std::reverse(nodes.begin(), nodes.end());
  for (Node* node : nodes) {
    if (table.match_of.contains(node) || matcher.targets(node).empty()) continue;
    for (const BackendPatternConfig* row : rows) {
      const auto tree = matcher.match(node, row->key());
      if (!tree) continue;
      Match found{.row = row,
                  .root = match::root_of(*tree, row->root_node_getter).node,
                  .last = node,
                  .nodes = match::nodes_of(*tree)};
      if (found.root == nullptr) continue;
      found.shares_observer = shares_observer(*row, found.root);
      for (const Node* each : found.nodes) table.match_of.try_emplace(each, table.matches.size());
      table.matches.push_back(std::move(found));
      break;
    }
  }
  return table;
}

}  // namespace tsq::passes
