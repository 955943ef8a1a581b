// Values that are not there on every way through the model.

#include "operators/no_value.h"

#include <algorithm>
#include <unordered_set>

#include "ir/analysis.h"

namespace tsq::operators {
namespace {

using ir::Block;
using ir::Node;
using ir::Value;

bool raises(const Block* block) {
  return std::ranges::any_of(block->nodes(),
                             [](const Node* node) { return node->kind() == c10::prim::RaiseException; });
}

/// `seen`: values that are asked for already; a value that goes around a loop comes back to itself.
bool may_be_no_value(const Value* value, std::unordered_set<const Value*>& seen) {
  if (!seen.insert(value).second) return false;
  if (ir::is_no_value(value)) return true;
  const Node* node = value->node();
  if (ir::is_observer(node)) return may_be_no_value(node->input(0), seen);
  if (node->kind() == c10::prim::If) {
    return std::ranges::any_of(node->blocks(), [&](const Block* block) {
      return !raises(block) && may_be_no_value(block->outputs()[value->offset()], seen);
    });
  }
  if (node->kind() == c10::prim::Loop) {
    return may_be_no_value(node->input(value->offset() + 2), seen) ||
           may_be_no_value(node->blocks()[0]->outputs()[value->offset() + 1], seen);
  }
  const Node* owner = node->kind() == c10::prim::Param ? node->owningBlock()->owningNode() : nullptr;
  if (owner == nullptr || owner->kind() != c10::prim::Loop || value->offset() == 0) return false;
  return may_be_no_value(owner->input(value->offset() + 1), seen) ||
         may_be_no_value(owner->blocks()[0]->outputs()[value->offset()], seen);
}

}  // namespace

bool may_be_no_value(const Value* value) {
  std::unordered_set<const Value*> seen;
  return may_be_no_value(value, seen);
}

}  // namespace tsq::operators
