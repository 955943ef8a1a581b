#pragma once

#include <torch/csrc/jit/ir/ir.h>

namespace tsq::ir {

/// A list that grows by append becomes a new list at each append: what reads it then reads a list with known
/// elements.
///   l = [a]; append(l, b); cat(l)   →   l = [a]; l2 = [a, b]; cat(l2)
void replace_grown_list(torch::jit::Graph& graph, torch::jit::Node* list);

/// A dict that gets further keys becomes a new dict at each of them.
///   d = {"a": x}; d["b"] = y; d["b"]   →   d = {"a": x}; d2 = {"a": x, "b": y}; d2["b"]
void replace_filled_dict(torch::jit::Graph& graph, torch::jit::Node* dict);

}  // namespace tsq::ir
