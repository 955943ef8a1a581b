#include "passes/rewrite/rewrite_rules.h"

#include "ir/analysis.h"

namespace tsq::passes {
namespace {

void replace(Model& model, Node* last, const RewriteRule& rule, const Leaves& leaves) {
  const ir::Rewriter in_front(model, last);
  const std::vector<Value*> arguments =
      rule.arguments == nullptr ? std::vector{leaves.at("x")} : rule.arguments(model, in_front, leaves);
  ir::Rewriter::replace(last, in_front.op(rule.replacement, arguments, last->output()->type()));
}

}  // namespace

bool apply_rules(Model& model, std::span<const RewriteRule> rules) {
  bool changed = false;
  for (const RewriteRule& rule : rules) {
    for (Node* node : ir::nodes_in_order(*model.graph)) {
      if (!node->hasUses()) continue;  // part of what an earlier rule has matched
      const auto leaves = match_expression(model, node, rule.pattern);
      if (!leaves || (rule.guard != nullptr && !rule.guard(model, *leaves))) continue;
      replace(model, node, rule, *leaves);
      changed = true;
    }
  }
  return ir::eliminate_dead_code(*model.graph) || changed;
}

}  // namespace tsq::passes
