#pragma once

#include <algorithm>

#include "config/names/observer_classes.h"
#include "ir/analysis.h"
#include "observers/observer_module.h"
#include "passes/context/names.h"

/// Observers that tell whether a sample came to the end of a branch.
namespace tsq::passes {

inline bool is_branch_observer(const Model& model, const Node* node) {
  return ir::is_observer(node) && ir::observer_of(model, node).spec.observer == observer_classes::kBranch;
}

/// Whether no sample came to the end of a branch, whose range is that of others then.
inline bool was_not_left(const Model& model, const Node* end) {
  const auto saw = [&](const Node* node) { return saw_data(ir::observer_of(model, node).module.value()); };
  const auto is_unseen = [&](const Node* user) { return is_branch_observer(model, user) && !saw(user); };
  return saw(end) && std::ranges::any_of(ir::users(end->output()), is_unseen);
}

/// What observes a value that a branch returns, within the branch; null where nothing does.
inline Node* end_of_branch(const torch::jit::Block* block, std::size_t output) {
  const Node* end = block->outputs()[output]->node();
  return end->owningBlock() == block && ir::is_observer(end) ? const_cast<Node*>(end) : nullptr;
}

}  // namespace tsq::passes
