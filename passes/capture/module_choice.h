#pragma once

#include "passes/capture/capturing.h"

/// Modules that an index into a container, the branches of an `if` or an interface choose when the model
/// runs.
namespace tsq::passes {

/// Puts the calls of those from which the model chooses in front of the call of a module that it chooses; who
/// read the call's result reads theirs:
///   y = CallMethod(container[i], x)   →   if i == 0: y = CallMethod(a, x) else: if i == 1: … else: raise
/// The node after which they stand; null, and nothing is changed, where they cannot be told.
ir::Node* call_each_choice(Capturing& state, ir::Node* call);

/// Modules of which nothing tells which one is chosen become attributes of the flat module, and are kept.
void keep_chosen_modules(Capturing& state, ir::Graph& graph);

}  // namespace tsq::passes
