#pragma once

#include <torch/csrc/jit/ir/ir.h>

/// LibTorch's names for the parts of a graph.
namespace tsq::ir {

using torch::jit::Block;
using torch::jit::Graph;
using torch::jit::Node;
using torch::jit::Value;

}  // namespace tsq::ir
