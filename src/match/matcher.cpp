#include "match/matcher.h"

#include <torch/csrc/jit/ir/constants.h>

#include <algorithm>

namespace tsq::match {

const std::vector<Symbol>& Matcher::targets(const ir::Node* node) {
  const auto found = targets_.find(node);
  if (found != targets_.end()) return found->second;
  return targets_.emplace(node, ir::targets(gm_, node)).first->second;
}

bool Matcher::match_value(ir::Value* value, const ir::Node* user, const Pattern& pattern,
                          MatchedNode& result) {
  result.pattern = &pattern;
  result.value = value;
  if (pattern.symbol.kind == SymbolKind::MatchAll) return true;
  if (pattern.symbol.kind == SymbolKind::Literal) {
    const auto constant = torch::jit::toIValue(value);
    return constant && constant->isInt() && std::to_string(constant->toInt()) == pattern.symbol.name;
  }
  if (value->node()->owningBlock() != user->owningBlock() || ir::users(value).size() > 1) return false;
  return match_node(value->node(), pattern, result);
}

bool Matcher::match_node(ir::Node* node, const Pattern& pattern, MatchedNode& result) {
  result.pattern = &pattern;
  result.node = node;
  if (ir::stays_float(node)) return false;
  if (ir::is_standalone(gm_, node)) return false;  // C-09: it is no part of another pattern
  const std::vector<Symbol>& spellings = targets(node);
  if (std::find(spellings.begin(), spellings.end(), pattern.symbol) == spellings.end()) return false;
  if (pattern.args.empty()) return true;
  const auto arguments = ir::arguments(node);
  if (arguments.size() < pattern.args.size()) return false;
  for (std::size_t i = 0; i < pattern.args.size(); ++i) {
    MatchedNode inner;
    if (!match_value(arguments[i].value, node, pattern.args[i], inner)) return false;
    result.args.push_back(std::move(inner));
  }
  return true;
}

std::optional<MatchedNode> Matcher::match(ir::Node* node, const Pattern& pattern) {
  MatchedNode result;
  if (!match_node(node, pattern, result)) return std::nullopt;
  return result;
}

std::vector<ir::Node*> nodes_of(const MatchedNode& matched) {
  std::vector<ir::Node*> nodes;
  if (matched.node != nullptr) nodes.push_back(matched.node);
  for (const MatchedNode& argument : matched.args) {
    for (ir::Node* node : nodes_of(argument)) nodes.push_back(node);
  }
  return nodes;
}

const MatchedNode& root_of(const MatchedNode& matched, RootNodeGetter getter) {
  if (getter == RootNodeGetter::FirstArgument && !matched.args.empty()) return matched.args.front();
  const MatchedNode* current = &matched;
  while (!current->args.empty()) {
    // A relu on top of the addition has one argument: only the addition has a left and a right.
    const bool takes_left = getter == RootNodeGetter::ConvLeft && current->args.size() > 1;
    current = takes_left ? &current->args.front() : &current->args.back();
  }
  return *current;
}

std::vector<const BackendPatternConfig*> sorted_rows(const BackendConfig& backend) {
  std::vector<const BackendPatternConfig*> rows;
  for (const BackendPatternConfig& row : backend.configs()) rows.push_back(&row);
  std::stable_sort(rows.begin(), rows.end(),
                   [](const BackendPatternConfig* a, const BackendPatternConfig* b) {
                     return leaf_count(a->key()) > leaf_count(b->key());
                   });
  return rows;
}

}  // namespace tsq::match
