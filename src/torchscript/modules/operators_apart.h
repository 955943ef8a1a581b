#pragma once

#include "ir/graph.h"

namespace tsq::torchscript {

/// Keeps the operators of a graph that trains apart, so that each is differentiated by autograd, as in
/// Python: TorchScript's executor derives neighbours together, by formulas that differ in the last bit and
/// with megabytes of graphs for each group.
void keep_operators_apart(ir::Graph& graph);

}  // namespace tsq::torchscript
