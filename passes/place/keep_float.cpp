// Operators of a calibrated model that stay float after all.
//   a → obs → b → obs → c, b kept float   becomes   a → obs → b, b → obs → c; obs in front of b goes where a
//   is float

#include <algorithm>

#include "ir/analysis.h"
#include "ir/edit.h"
#include "passes/decision_index.h"
#include "passes/placement/passes.h"

namespace tsq::passes {
namespace {

using ir::Model;
using ir::Node;
using ir::Value;

std::string name_of(const Node* node) {
  return node->outputs().empty() ? std::string() : node->outputs().front()->debugName();
}

bool is_quantized(const Model& gm, const Node* node) {
  return ir::observed_qconfig(gm, node) != nullptr && node->kind() != c10::prim::GetAttr;
}

/// What observers see, the value itself.
Value* after_observers(Value* value) {
  while (ir::is_observer(value->node())) value = value->node()->input(0);
  return value;
}

/// A float operator reads float values as they are: only what comes out of a kernel is rounded already.
void read_exact_values(const Model& gm, Node* node) {
  for (Value* operand : ir::operands(node)) {
    Value* exact = after_observers(operand);
    if (exact != operand && !is_quantized(gm, exact->node())) ir::replace_operand(node, operand, exact);
  }
}

}  // namespace

void keep_float(Model& gm, const std::map<std::string, std::string>& reasons, Report& report) {
  if (reasons.empty()) return;
  const DecisionIndex decisions(report);
  std::vector<Node*> kept;
  for (Node* node : ir::nodes_in_order(*gm.graph)) {
    // A QConfig that led to nothing must not keep an observer beside it (K-03).
    if (const ir::NodeState* state = ir::state_of(gm, node); state != nullptr && !state->observed) {
      ir::set_state(gm, node, {});
      kept.push_back(node);
    }
    const auto reason = reasons.find(name_of(node));
    if (reason == reasons.end() || ir::is_observer(node)) continue;
    kept.push_back(node);
    ir::set_state(gm, node, {});
    if (Decision* decision = decisions.of(node); decision != nullptr && decision->quantized) {
      decision->quantized = false;
      decision->reason = reason->second;
      decision->equalization.clear();
    }
  }
  for (Node* node : kept) read_exact_values(gm, node);
}

}  // namespace tsq::passes
