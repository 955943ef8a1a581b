// Which operators form which pattern, under which QConfig.

#include <algorithm>

#include "ir/analysis.h"
#include "match/matcher.h"
#include "match/qconfig_lookup.h"
#include "passes/match/passes.h"

namespace tsq::passes {
namespace {

using ir::Model;
using ir::Node;
using ir::Value;

/// Whether no tensor reaches a value: shapes, numbers, what is computed from them
/// (all_node_args_have_no_tensors).
bool has_no_tensors(const Value* value) {
  if (!ir::holds_tensor(value)) return true;
  const Node* node = value->node();
  if (ir::is_constant(value)) return false;
  if (node->kind() == c10::prim::NumToTensor) return true;
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

/// The node that an argument of a pattern is; null for constants.
Node* claimed_node(const match::MatchedNode& matched) {
  if (matched.node != nullptr) return matched.node;
  return matched.value == nullptr || ir::is_constant(matched.value) ? nullptr : matched.value->node();
}

/// The nodes that a row claims, last first: unlike a fusion, those too that match_all stands for
/// (_recursive_record_node_in_match_map).
std::vector<Node*> claimed_nodes(const match::MatchedNode& matched) {
  std::vector<Node*> nodes;
  Node* own = claimed_node(matched);
  if (own != nullptr && own->kind() != c10::prim::Param) nodes.push_back(own);
  for (const match::MatchedNode& argument : matched.args) {
    for (Node* node : claimed_nodes(argument)) nodes.push_back(node);
  }
  return nodes;
}

/// C-09: a standalone module is a pattern of its own, whatever its class.
Match standalone_match(Node* node) {
  static const BackendPatternConfig kRow{.pattern = Pattern(match_all), .dtype_configs = {DTypeConfig{}}};
  return {.row = &kRow, .root = node, .last = node, .nodes = {node}};
}

}  // namespace

MatchTable match(const Model& gm, const QConfigMapping& mapping, const BackendConfig& backend) {
  MatchTable table;
  match::Matcher matcher(gm);
  table.qconfig_of = match::find_qconfigs(gm, mapping);
  std::vector<Node*> nodes = ir::nodes_in_order(*gm.graph);
  auto rows = match::sorted_rows(backend);
  // An addition that fuse left alone is not one with its convolution.
  std::erase_if(rows, [](const BackendPatternConfig* row) {
    return row->fuser_method && row->extra_inputs_getter == ExtraInputsGetter::OtherAddend;
  });
  std::reverse(nodes.begin(), nodes.end());
  for (Node* node : nodes) {
    if (table.match_of.contains(node) || matcher.targets(node).empty()) continue;
    if (ir::is_standalone(gm, node)) {
      table.match_of.emplace(node, table.matches.size());
      table.matches.push_back(standalone_match(node));
      continue;
    }
    for (const BackendPatternConfig* row : rows) {
      const auto tree = matcher.match(node, row->key());
      if (!tree) continue;
      Match found{.row = row,
                  .root = claimed_node(match::root_of(*tree, *row)),
                  .last = node,
                  .nodes = claimed_nodes(*tree)};
      if (found.root == nullptr) continue;
      found.shares_observer = shares_observer(*row, found.root);
      for (const Node* each : found.nodes) table.match_of[each] = table.matches.size();
      table.matches.push_back(std::move(found));
      break;
    }
  }
  return table;
}

void remove_empty_matches(MatchTable& table) {
  std::erase_if(table.matches, [](const Match& match) { return match.nodes.empty(); });
  for (std::size_t i = 0; i < table.matches.size(); ++i) {
    for (const Node* node : table.matches[i].nodes) table.match_of[node] = i;
  }
}

}  // namespace tsq::passes
