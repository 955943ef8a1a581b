#include "passes/lower/program/late_writes.h"

#include "ir/analysis.h"

namespace tsq::passes {
namespace {

using ir::Node;

bool accesses_attribute(const Node* node) {
  return node->kind() == c10::prim::GetAttr || node->kind() == c10::prim::SetAttr;
}

/// Whether an attribute may be written after a node instead of before it. What is set is the tensor itself,
/// so that it does not matter who writes into that.
bool may_pass(const Node* write, const Node* node) {
  if (!node->blocks().empty() || node->kind() == c10::prim::Return) return false;
  if (accesses_attribute(node)) return node->s(c10::attr::name) != write->s(c10::attr::name);
  return !node->hasSideEffects() || node->kind() == c10::prim::CallFunction;
}

}  // namespace

bool write_attributes_late(ir::Model& model) {
  bool has_changed = false;
  for (Node* write : ir::nodes_in_order(*model.graph)) {
    if (write->kind() != c10::prim::SetAttr) continue;
    Node* next = write->next();
    while (may_pass(write, next)) next = next->next();
    if (next == write->next()) continue;
    write->moveBefore(next);
    has_changed = true;
  }
  return has_changed;
}

}  // namespace tsq::passes
