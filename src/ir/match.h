#pragma once

#include <tsq/backend_config.h>

#include <vector>

#include "ir/graph.h"

namespace tsq::ir {

/// How nodes were matched.
struct Match {
  const BackendPatternConfig* row{};
  Node* root{};                 ///< the operator that gets the input observers
  Node* last{};                 ///< the operator whose output is observed
  std::vector<Node*> nodes{};   ///< all of them, last first
  bool shares_observer{false};  ///< output shares the input's observer (A-23 applied)
};

}  // namespace tsq::ir
