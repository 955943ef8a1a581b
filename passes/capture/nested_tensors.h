#pragma once

#include <torch/csrc/jit/api/module.h>

#include "passes/capture/capturing.h"

/// Tracing sees torch.nn.TransformerEncoder make nested tensors of the samples' lengths. Only the fused
/// kernels of attention know them: samples of one length with a mask take their place.
namespace tsq::passes {

/// Whether a model decides when it runs to make nested tensors.
[[nodiscard]] bool chooses_nested_tensors(const torch::jit::Module& module);

/// Replaces what makes a nested tensor and what makes a padded one of it again; false for other nodes.
///   nested(x, kept)   →   x, of which the positions that are not kept are left out later
bool replace_nested_tensor(Capturing& state, ir::Node* node, std::size_t scope);

/// The positions to leave out of the samples that a node reads first; null where they are all of one length.
[[nodiscard]] ir::Value* left_out_of(const Capturing& state, const ir::Node* node);
/// Tells a fused layer to leave them out.
void give_mask(ir::Node* layer, ir::Value* left_out);

/// Once a graph has been walked.
void drop_aliases(Capturing& state);

}  // namespace tsq::passes
