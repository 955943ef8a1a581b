// Which operators form which pattern, under which QConfig.

#include <algorithm>
#include <optional>
#include <ranges>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ir/analysis.h"
#include "match/dtype_check.h"
#include "match/matcher.h"
#include "match/qconfig_lookup.h"
#include "operators/weighted.h"
#include "passes/match/matches.h"
#include "passes/match/passes.h"
#include "passes/match/training_types.h"

namespace tsq::passes {
namespace {

using ir::Match;

/// Counts arguments that tensors reach; looks each value up once.
class TensorArguments {
 public:
  int count(const Node* root) {
    return static_cast<int>(std::ranges::count_if(ir::arguments(root), [&](const ir::Argument& argument) {
      return !argument.is_list && !has_no_tensors(argument.value);
    }));
  }

 private:
  /// Whether no tensor reaches a value: shapes, numbers, what is computed from them
  /// (all_node_args_have_no_tensors).
  bool has_no_tensors(const Value* value) {
    if (!ir::holds_tensor(value)) return true;
    if (const auto found = known_.find(value); found != known_.end()) return found->second;
    return known_[value] = is_of_shapes(value->node());
  }

  bool is_of_shapes(const Node* node) {
    if (node->kind() == c10::prim::Constant) return false;
    if (node->kind() == c10::prim::NumToTensor) return true;
    if (!node->kind().is_aten() || node->inputs().empty()) return false;
    return std::ranges::all_of(ir::operands(node),
                               [&](const Value* operand) { return has_no_tensors(operand); });
  }

  std::unordered_map<const Value*, bool> known_;
};

bool shares_observer(const BackendPatternConfig& row, const Node* root, TensorArguments& arguments) {
  ObservationType type = row.observation_type;
  if (!row.num_tensor_args_to_observation_type.empty()) {
    const auto found = row.num_tensor_args_to_observation_type.find(arguments.count(root));
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

/// C-09: a standalone module, or one that becomes an observed module, is a pattern of its own, whatever its
/// class.
Match opaque_match(Node* node) {
  static const BackendPatternConfig kRow{.pattern = Pattern(match_all), .dtype_configs = {DTypeConfig{}}};
  return {.row = &kRow, .root = node, .last = node, .nodes = {node}};
}

/// Every operator's record says its QConfig, and nothing else but what is placed as Written.
void look_up(Model& model, const std::vector<Node*>& nodes, const PassContext& context) {
  auto decisions = match::find_qconfigs(
      model, context.trains ? with_training_types(context.mapping, context.table) : context.mapping);
  for (Node* node : nodes) {
    const auto found = decisions.find(node);
    if (found == decisions.end()) continue;
    ir::NodeRecord& record = ir::record_for(model, node);
    record.lookup = std::move(found->second);
    record.match.reset();
    if (record.placement == ir::Placement::Written) continue;
    record.placement = ir::Placement::Undecided;
    record.reason = ir::Reason::None;
  }
}

/// FX rounds the input of a custom module whose QConfig is dynamic, and gains nothing by it. Recipe best
/// takes such a module for what its class is to the table; parameters that it holds were left in it until
/// now.
void release_dynamic_modules(Model& model, const std::vector<Node*>& nodes) {
  for (const Node* node : nodes) {
    if (!ir::is_module_call(node)) continue;
    ir::ModuleCall& call = ir::call_of(model, node);
    const MaybeQConfig& qconfig = qconfig_of(model, node);
    if (call.custom == ir::CustomState::Float && qconfig && !match::is_static(*qconfig) &&
        !operators::is_weighted(call.type))
      call.custom = ir::CustomState::None;
  }
}

/// The rows that are tried, in order.
std::vector<const BackendPatternConfig*> rows_of(const BackendConfig& table) {
  auto rows = match::sorted_rows(table);
  // An addition that fuse left alone is not one with its convolution.
  std::erase_if(rows, [](const BackendPatternConfig* row) {
    return row->fuser_method && row->extra_inputs_getter == ExtraInputsGetter::OtherAddend;
  });
  return rows;
}

/// Finds matches, the rows of the table in order.
class RowMatching {
 public:
  RowMatching(const Model& model, const BackendConfig& table)
      : model_(model), matcher_(model), rows_(rows_of(table)) {}

  /// The first row that matches with `node` as its last operator; empty where there is none.
  std::optional<Match> match_at(Node* node) {
    if (matcher_.targets(node).empty()) return std::nullopt;
    if (ir::is_opaque(model_, node)) return opaque_match(node);
    for (const BackendPatternConfig* row : rows_) {
      const auto tree = matcher_.match(node, row->key());
      if (!tree) continue;
      Match found{.row = row,
                  .root = claimed_node(match::root_of(*tree, *row)),
                  .last = node,
                  .nodes = claimed_nodes(*tree)};
      if (found.root == nullptr) continue;
      found.shares_observer = shares_observer(*row, found.root, arguments_);
      return found;
    }
    return std::nullopt;
  }

 private:
  const Model& model_;
  match::Matcher matcher_;
  std::vector<const BackendPatternConfig*> rows_;
  TensorArguments arguments_{};
};

}  // namespace

bool match(Model& model, const PassContext& context) {
  const std::vector<Node*> nodes = ir::nodes_in_order(*model.graph);
  look_up(model, nodes, context);
  if (context.options.recipe == Recipe::Best) release_dynamic_modules(model, nodes);
  model.matches.clear();
  RowMatching matching(model, context.table);
  for (Node* node : std::views::reverse(nodes)) {
    const ir::NodeRecord* record = ir::record_of(model, node);
    if (record != nullptr && record->match) continue;
    auto found = matching.match_at(node);
    if (!found) continue;
    for (Node* each : found->nodes) ir::record_for(model, each).match = model.matches.size();
    model.matches.push_back(std::move(*found));
  }
  return !model.records.empty();
}

}  // namespace tsq::passes
