#pragma once

#include "ir/graph_module.h"

namespace tsq::modules {

/// What an operator limits its input to; infinite where it does not.
struct ClampBounds {
  double lowest{};
  double highest{};
};

/// The bounds of a relu, relu6, hardtanh or clamp, module or function; empty for other operators and for
/// bounds that are known only when the model runs.
std::optional<ClampBounds> clamp_bounds(const ir::GraphModule& gm, const ir::Node* node);

}  // namespace tsq::modules
