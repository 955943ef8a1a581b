#pragma once

#include <ATen/core/ivalue.h>
#include <torch/csrc/jit/api/module.h>
#include <tsq/symbol.h>

#include <optional>
#include <span>

#include "ir/graph.h"

namespace tsq::torchscript {

/// A module of a torch.nn class that calls one operator. `constants` has an entry for each of the operator's
/// inputs: what is known becomes part of the module (tensors its attributes), what is not an argument of its
/// forward, in the operator's order. Several outputs leave as a tuple.
torch::jit::Module module_of_operator(Symbol type, const ir::Node* op,
                                      std::span<const std::optional<c10::IValue>> constants);

}  // namespace tsq::torchscript
