#pragma once

#include <tsq/backend_config.h>
#include <tsq/qconfig_mapping.h>

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "ir/graph_module.h"

namespace tsq::passes {

/// How one node was matched.
struct Match {
  const BackendPatternConfig* row{};
  ir::Node* root{};                ///< the operator that gets the input observers
  ir::Node* last{};                ///< the operator whose output is observed
  std::vector<ir::Node*> nodes{};  ///< all of them, last first
  bool shares_observer{false};     ///< output shares the input's observer (A-23 applied)
};

/// The decision table: which nodes form which pattern, under which QConfig, and what the backend's dtype
/// checks say.
struct MatchTable {
  std::vector<Match> matches{};
  std::unordered_map<const ir::Node*, std::size_t> match_of{};        ///< node → index into `matches`
  std::unordered_map<const ir::Node*, QConfigDecision> qconfig_of{};  ///< every operator
  std::unordered_map<const ir::Node*, std::string>
      left_float{};  ///< operators that a recipe leaves float: why
};

/// Removes matches that have lost their nodes.
void remove_empty_matches(MatchTable& table);

}  // namespace tsq::passes
