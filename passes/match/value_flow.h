#pragma once

#include <vector>

#include "ir/graph.h"

/// What a value is on the other side of branches and loops.
namespace tsq::passes {

/// The values that an output of a branch or loop, or what a loop carries, may be; empty for other values.
[[nodiscard]] std::vector<const ir::Value*> flows_from(const ir::Value* value);

/// The values that one becomes as the operand of a branch, a loop, or the end of their blocks.
[[nodiscard]] std::vector<const ir::Value*> flows_to(const torch::jit::Use& use);

/// The inputs of blocks, and what nodes return, a block before what its node returns.
[[nodiscard]] std::vector<const ir::Value*> values_in_order(const torch::jit::Graph& graph);

}  // namespace tsq::passes
