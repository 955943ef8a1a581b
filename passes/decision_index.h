#pragma once

#include <tsq/report.h>

#include <string>
#include <unordered_map>

#include "ir/graph_module.h"

namespace tsq::passes {

/// Finds the report's entry of a node. Valid while no entry is added or taken away.
class DecisionIndex {
 public:
  explicit DecisionIndex(Report& report) {
    for (Decision& decision : report.decisions) {
      if (decision.standalone.empty() && !decision.node.empty()) by_node_.emplace(decision.node, &decision);
    }
  }

  /// Null for nodes that the report does not name: made later, or without an output.
  [[nodiscard]] Decision* of(const ir::Node* node) const {
    if (node->outputs().empty()) return nullptr;
    const auto found = by_node_.find(node->outputs().front()->debugName());
    return found == by_node_.end() ? nullptr : found->second;
  }

 private:
  std::unordered_map<std::string, Decision*> by_node_;
};

}  // namespace tsq::passes
