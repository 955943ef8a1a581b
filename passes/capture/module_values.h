#pragma once

#include <torch/csrc/jit/api/module.h>

#include <optional>
#include <string>

#include "passes/capture/capturing.h"

/// Values of a graph that are modules.
namespace tsq::passes {

/// Forgets which values are modules, but for self. Values of another graph, or such that have been destroyed,
/// may have left their addresses to new ones.
void forget_module_values(Capturing& state, ir::Graph& graph);

/// The module that a value is, when the model's own attributes tell.
std::optional<torch::jit::Module> module_of(Capturing& state, ir::Value* value);

/// Whether the model assigns other modules to an attribute that holds one; interfaces allow that.
[[nodiscard]] bool is_replaced(const CaptureSource& source, const torch::jit::Module& owner,
                               const std::string& name);

/// Reads each module once where it was read again and again, as traces do for each layer of `self.blocks`:
/// LibTorch's analysis of aliases looks, at each read, at all that is in the module.
void merge_module_reads(Capturing& state, ir::Graph& graph);

/// Removes module values that only led to attributes and inlined calls.
void drop_module_values(ir::Graph& graph);

}  // namespace tsq::passes
