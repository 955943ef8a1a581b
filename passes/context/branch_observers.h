#pragma once

#include <string_view>
#include <vector>

#include "ir/analysis.h"
#include "passes/context/names.h"

/// Observers that tell whether a sample came to the end of a branch.
namespace tsq::passes {

inline constexpr const char* kBranchObserver = "branch_observer";

inline bool is_branch_observer(const Model& model, const Node* node) {
  return ir::is_observer(node) &&
         std::string_view(ir::observer_of(model, node).name).starts_with(kBranchObserver);
}

/// What observes output `index` of an `if` at the end of its branches, each in its own, with one range: empty
/// where the ranges are several.
inline std::vector<Node*> ends_of_branches(const Node* branches, std::size_t index) {
  std::vector<Node*> ends;
  for (const torch::jit::Block* block : branches->blocks()) {
    Node* end = const_cast<Node*>(block->outputs()[index]->node());
    if (end->owningBlock() != block || !ir::is_observer(end)) continue;
    if (!ends.empty() && ir::observer_index(ends.front()) != ir::observer_index(end)) return {};
    ends.push_back(end);
  }
  return ends;
}

}  // namespace tsq::passes
