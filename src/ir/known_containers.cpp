#include "ir/known_containers.h"

#include <torch/csrc/jit/ir/constants.h>

#include <algorithm>
#include <vector>

namespace tsq::ir {
namespace {

using torch::jit::Node;
using torch::jit::Value;

/// Whether every use of a list is in the block that makes it, and only reads it or appends to it.
bool only_grows(const Node* list) {
  return std::ranges::all_of(list->output()->uses(), [&](const torch::jit::Use& use) {
    if (use.user->owningBlock() != list->owningBlock() || use.user->kind() == c10::prim::Return) return false;
    if (use.user->kind() == c10::aten::append) return use.offset == 0 && !use.user->output()->hasUses();
    const c10::FunctionSchema* schema = use.user->maybeSchema();
    return use.user->kind().is_aten() && schema != nullptr && !schema->is_mutable();
  });
}

/// Whether every use of a dict is in the block that makes it, and only reads it or sets a key that is a
/// constant.
bool only_sets_known_keys(const Node* dict) {
  const auto is_known = [](const Value* key) { return key->node()->kind() == c10::prim::Constant; };
  for (std::size_t i = 0; i < dict->inputs().size(); i += 2) {
    if (!is_known(dict->input(i))) return false;
  }
  return std::ranges::all_of(dict->output()->uses(), [&](const torch::jit::Use& use) {
    if (use.user->owningBlock() != dict->owningBlock()) return false;
    if (use.user->kind() == c10::aten::_set_item) return use.offset == 0 && is_known(use.user->input(1));
    const c10::FunctionSchema* schema = use.user->maybeSchema();
    return use.user->kind() == c10::prim::Return ||
           (use.user->kind().is_aten() && schema != nullptr && !schema->is_mutable());
  });
}

void append_element(std::vector<Value*>& elements, Node* append) { elements.push_back(append->input(1)); }

/// Sets a key of a dict that is written as keys and values in turn.
void set_key(std::vector<Value*>& entries, Node* set) {
  const auto wanted = torch::jit::toIValue(set->input(1));
  for (std::size_t i = 0; i < entries.size(); i += 2) {
    if (torch::jit::toIValue(entries[i]) != wanted) continue;
    entries[i + 1] = set->input(2);
    return;
  }
  entries.insert(entries.end(), {set->input(1), set->input(2)});
}

/// Puts a new container in the place of each operator of `kind` that changes one; `change` does to its
/// contents what the operator does.
void replace_changes(torch::jit::Graph& graph, Node* container, c10::Symbol kind,
                     void (*change)(std::vector<Value*>& contents, Node* changer)) {
  std::vector<Node*> changers;
  for (const auto& use : container->output()->uses()) {
    if (use.user->kind() == kind) changers.push_back(use.user);
  }
  std::ranges::sort(changers, [](const Node* a, const Node* b) { return a->isBefore(b); });
  Value* current = container->output();
  std::vector<Value*> contents(container->inputs().begin(), container->inputs().end());
  for (Node* changer : changers) {
    change(contents, changer);
    Node* changed = graph.create(container->kind(), contents, 1);
    changed->output()->setType(container->output()->type());
    changed->insertAfter(changer);
    current->replaceAllUsesAfterNodeWith(changer, changed->output());
    current = changed->output();
    changer->destroy();
  }
}

}  // namespace

void replace_grown_list(torch::jit::Graph& graph, Node* list) {
  if (!only_grows(list)) return;
  replace_changes(graph, list, c10::aten::append, append_element);
}

void replace_filled_dict(torch::jit::Graph& graph, Node* dict) {
  if (!only_sets_known_keys(dict)) return;
  replace_changes(graph, dict, c10::aten::_set_item, set_key);
}

}  // namespace tsq::ir
