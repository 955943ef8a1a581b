#pragma once

#include <tsq/decision.h>
#include <tsq/qconfig_mapping.h>

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "ir/placement.h"

namespace tsq::ir {

/// What the flow knows of a node, beside the graph. match makes it, for every operator; match, observe and
/// place write it, what follows carries it out, the report prints it. A node that was made later, or that
/// prepare never saw, has none.
struct NodeRecord {
  QConfigDecision lookup{};            ///< the QConfig, and where it came from
  std::optional<std::size_t> match{};  ///< index into Model::matches, between match and observe
  bool observed{false};                ///< its pattern was observed (observed_node_names)
  /// By which its values may be rounded although nothing observes them: an island's, which none else has.
  MaybeQConfig unobserved_qconfig{};
  bool is_root{false};  ///< what its pattern reads is observed in front of it
  Placement placement{Placement::Undecided};
  Reason reason{Reason::None};  ///< why it is not Int8
  std::string detail{};         ///< of the reason: see explanation_of
  bool is_reported{false};      ///< it has an entry in the report
  Decision decision{};          ///< that entry
  /// Decision::node of the other operators, where its row's pattern has several.
  std::vector<std::string> partners{};
};

/// Which of the model's records a node has; none: it has no record.
[[nodiscard]] std::optional<std::size_t> record_index(const Node* node);
void set_record(Node* node, std::size_t index);
/// Two nodes have one record from here on.
void take_record(Node* to, const Node* from);

}  // namespace tsq::ir
