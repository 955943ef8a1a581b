// Forked calls that have become part of the graph leave no futures.

#include "passes/capture/resolve_futures.h"

#include <algorithm>
#include <unordered_set>

#include "ir/analysis.h"
#include "passes/context/nodes.h"

namespace tsq::passes {
namespace {

using c10::TypePtr;

bool holds_future(const TypePtr& type) {
  if (type->kind() == TypeKind::FutureType) return true;
  if (type->kind() == TypeKind::ClassType) return false;
  return std::ranges::any_of(type->containedTypes(), holds_future);
}

TypePtr without_futures(const TypePtr& type) {
  if (!holds_future(type)) return type;
  if (type->kind() == TypeKind::FutureType)
    return without_futures(type->expectRef<c10::FutureType>().getElementType());
  std::vector<TypePtr> contained;
  for (const TypePtr& each : type->containedTypes()) contained.push_back(without_futures(each));
  return type->withContained(std::move(contained));
}

using Values = std::unordered_set<const Value*>;

/// Whether an operator takes and returns values of any type where it took and returned futures.
bool takes_any_type(const Node* node, const Values& futures) {
  const c10::FunctionSchema* schema = node->kind().is_aten() ? node->maybeSchema() : nullptr;
  if (schema == nullptr) return false;
  const auto is_free = [&](const std::vector<c10::Argument>& formals, at::ArrayRef<const Value*> actuals) {
    for (std::size_t i = 0; i < actuals.size(); ++i) {
      const bool is_any = i < formals.size() && formals[i].type()->hasFreeVariables();
      if (futures.contains(actuals[i]) && !is_any) return false;
    }
    return true;
  };
  return is_free(schema->arguments(), node->inputs()) && is_free(schema->returns(), node->outputs());
}

bool can_hold_results(const Node* node, const Values& futures) {
  switch (node->kind()) {
    case c10::prim::ListConstruct:
    case c10::prim::ListUnpack:
    case c10::prim::TupleConstruct:
    case c10::prim::TupleUnpack:
    case c10::prim::TupleIndex:
    case c10::prim::TupleSlice:
    case c10::prim::DictConstruct:
    case c10::prim::If:
    case c10::prim::Loop:
    case c10::prim::Uninitialized:
    case c10::prim::unchecked_cast:
    case c10::aten::wait:
      return true;
    default:
      return takes_any_type(node, futures);
  }
}

bool touches(const Node* node, const Values& futures) {
  const auto is_future = [&](const Value* value) { return futures.contains(value); };
  return std::ranges::any_of(node->inputs(), is_future) || std::ranges::any_of(node->outputs(), is_future);
}

/// Futures become results; `found` gets them.
void resolve(at::ArrayRef<Value*> values, Values& found) {
  for (Value* value : values) {
    if (!holds_future(value->type())) continue;
    found.insert(value);
    value->setType(without_futures(value->type()));
  }
}

}  // namespace

bool resolve_futures(ir::Graph& graph, const c10::FunctionSchema& schema) {
  const auto is_future = [](const c10::Argument& argument) { return holds_future(argument.type()); };
  if (std::ranges::any_of(schema.arguments(), is_future) || std::ranges::any_of(schema.returns(), is_future))
    return false;
  const std::vector<Node*> nodes = ir::nodes_in_order(graph);
  Values futures;
  for (Node* node : nodes) {
    resolve(node->outputs(), futures);
    for (torch::jit::Block* block : node->blocks()) resolve(block->inputs(), futures);
  }
  // Only now an operator's schema is that of what it reads.
  const auto stays = [&](const Node* node) {
    return touches(node, futures) && !can_hold_results(node, futures);
  };
  if (std::ranges::any_of(nodes, stays)) return false;
  for (Node* node : nodes) {
    if (node->kind() == c10::aten::wait) bypass(node);
  }
  return true;
}

}  // namespace tsq::passes
