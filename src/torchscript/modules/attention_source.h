#pragma once

#include <torch/csrc/jit/api/module.h>
#include <tsq/symbol.h>

#include <memory>

#include "ir/graph.h"

/// Attention and transformer layers of torch.nn in plain operators. Their own code asks at run time whether
/// one fused float kernel can do all of the layer; here each projection is a linear layer and attention is
/// torch.scaled_dot_product_attention, or a softmax between two products where its weights are asked for.
namespace tsq::torchscript {

/// The forward of a scripted MultiheadAttention, TransformerEncoderLayer or TransformerEncoder of torch.nn in
/// evaluation, with the inputs of their own; null for other modules, and for such with parts of the user's.
std::shared_ptr<torch::jit::Graph> plain_forward(const torch::jit::Module& module, Symbol type);

/// The fused operators that tracing leaves of these modules; null for other operators.
std::shared_ptr<torch::jit::Graph> plain_operator(const ir::Node* node);

/// torch.nn.functional.multi_head_attention_forward, for a call whose choices are constants; null for others.
std::shared_ptr<torch::jit::Graph> plain_function(const ir::Node* call);

}  // namespace tsq::torchscript
