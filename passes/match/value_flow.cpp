#include "passes/match/value_flow.h"

#include "passes/context/names.h"

namespace tsq::passes {
namespace {

/// What goes into a loop, and what its body returns: its inputs begin with the number of turns and a
/// condition, the values of its body with the condition.
constexpr std::size_t kBeforeInputs = 2;
constexpr std::size_t kBeforeValues = 1;

std::vector<const Value*> carried(const Node* loop, std::size_t index) {
  return {loop->input(index + kBeforeInputs), loop->blocks()[0]->outputs()[index + kBeforeValues]};
}

std::vector<const Value*> carriers(const Node* loop, std::size_t index) {
  return {loop->output(index), loop->blocks()[0]->inputs()[index + kBeforeValues]};
}

bool is_loop(const Node* node) { return node != nullptr && node->kind() == c10::prim::Loop; }

void collect(const torch::jit::Block* block, std::vector<const Value*>& values) {
  values.insert(values.end(), block->inputs().begin(), block->inputs().end());
  for (const Node* node : block->nodes()) {
    for (const torch::jit::Block* inner : node->blocks()) collect(inner, values);
    values.insert(values.end(), node->outputs().begin(), node->outputs().end());
  }
}

}  // namespace

std::vector<const Value*> flows_from(const Value* value) {
  const Node* node = value->node();
  if (node->kind() == c10::prim::If)
    return {node->blocks()[0]->outputs()[value->offset()], node->blocks()[1]->outputs()[value->offset()]};
  if (is_loop(node)) return carried(node, value->offset());
  const Node* owner = node->owningBlock()->owningNode();
  const bool is_carried =
      node->kind() == c10::prim::Param && is_loop(owner) && value->offset() >= kBeforeValues;
  return is_carried ? carried(owner, value->offset() - kBeforeValues) : std::vector<const Value*>{};
}

std::vector<const Value*> flows_to(const torch::jit::Use& use) {
  if (is_loop(use.user))
    return use.offset < kBeforeInputs ? std::vector<const Value*>{}
                                      : carriers(use.user, use.offset - kBeforeInputs);
  const Node* owner = use.user->owningBlock()->owningNode();
  if (use.user->kind() != c10::prim::Return || owner == nullptr) return {};
  if (owner->kind() == c10::prim::If) return {owner->output(use.offset)};
  const bool is_carried = is_loop(owner) && use.offset >= kBeforeValues;
  return is_carried ? carriers(owner, use.offset - kBeforeValues) : std::vector<const Value*>{};
}

std::vector<const Value*> values_in_order(const torch::jit::Graph& graph) {
  std::vector<const Value*> values;
  collect(graph.block(), values);
  return values;
}

}  // namespace tsq::passes
