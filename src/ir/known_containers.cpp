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
  const auto uses = list->output()->uses();
  return std::all_of(uses.begin(), uses.end(), [&](const torch::jit::Use& use) {
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
  const auto uses = dict->output()->uses();
  return std::all_of(uses.begin(), uses.end(), [&](const torch::jit::Use& use) {
    if (use.user->owningBlock() != dict->owningBlock()) return false;
    if (use.user->kind() == c10::aten::_set_item) return use.offset == 0 && is_known(use.user->input(1));
    const c10::FunctionSchema* schema = use.user->maybeSchema();
    return use.user->kind() == c10::prim::Return ||
           (use.user->kind().is_aten() && schema != nullptr && !schema->is_mutable());
  });
}

/// Sets a key of a dict that is written as keys and values in turn.
void set_key(std::vector<Value*>& entries, Value* key, Value* value) {
  const auto wanted = torch::jit::toIValue(key);
  for (std::size_t i = 0; i < entries.size(); i += 2) {
    if (torch::jit::toIValue(entries[i]) != wanted) continue;
    entries[i + 1] = value;
    return;
  }
  entries.insert(entries.end(), {key, value});
}

}  // namespace

void replace_grown_list(torch::jit::Graph& graph, Node* list) {
  if (!only_grows(list)) return;
  std::vector<Node*> appends;
  for (const auto& use : list->output()->uses()) {
    if (use.user->kind() == c10::aten::append) appends.push_back(use.user);
  }
  std::sort(appends.begin(), appends.end(), [](const Node* a, const Node* b) { return a->isBefore(b); });
  Value* current = list->output();
  std::vector<Value*> elements(list->inputs().begin(), list->inputs().end());
  for (Node* append : appends) {
    elements.push_back(append->input(1));
    Node* grown = graph.create(c10::prim::ListConstruct, elements, 1);
    grown->output()->setType(list->output()->type());
    grown->insertAfter(append);
    current->replaceAllUsesAfterNodeWith(append, grown->output());
    current = grown->output();
    append->destroy();
  }
}

void replace_filled_dict(torch::jit::Graph& graph, Node* dict) {
  if (!only_sets_known_keys(dict)) return;
  std::vector<Node*> sets;
  for (const auto& use : dict->output()->uses()) {
    if (use.user->kind() == c10::aten::_set_item) sets.push_back(use.user);
  }
  std::sort(sets.begin(), sets.end(), [](const Node* a, const Node* b) { return a->isBefore(b); });
  Value* current = dict->output();
  std::vector<Value*> entries(dict->inputs().begin(), dict->inputs().end());
  for (Node* set : sets) {
    set_key(entries, set->input(1), set->input(2));
    Node* filled = graph.create(c10::prim::DictConstruct, entries, 1);
    filled->output()->setType(dict->output()->type());
    filled->insertAfter(set);
    current->replaceAllUsesAfterNodeWith(set, filled->output());
    current = filled->output();
    set->destroy();
  }
}

}  // namespace tsq::ir
