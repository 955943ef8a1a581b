#pragma once

#include <memory>

#include "ir/graph.h"

namespace tsq::passes {

/// What Python evaluates while FX traces: conditions on constants, loops of a known length, lists, dicts
/// and tuples that are only a way to pass values.
void evaluate_python(std::shared_ptr<ir::Graph> graph);

}  // namespace tsq::passes
