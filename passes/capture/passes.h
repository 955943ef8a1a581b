#pragma once

#include <tsq/custom_config.h>

#include "ir/graph_module.h"

/// The user's module becomes a flat graph of float32.
namespace tsq::passes {

/// `module` → flat graph. Inlines every call except those of leaf modules (torch.nn.* that are no containers,
/// and the custom config's non-traceable ones) and torch.nn.functional.*; resolves attribute chains; folds
/// what depends on constants or on `training` only.
///   %y = CallMethod[forward](%block, %x)   →   conv = Conv2d(x); relu = ReLU(conv)
/// The user's module is not modified. Throws Error(BadModel).
ir::GraphModule capture(const torch::jit::Module& module, const PrepareCustomConfig& custom);

/// Recurrent operators that tracing or freezing opened, or that users call themselves, with constant weights
/// become calls of torch.nn modules.
///   %y, %h, %c = aten::lstm(%x, %hx, constants, …)   →   y, h, c = LSTM(x, hx)
void lift_recurrent(ir::GraphModule& gm);

/// The plain form of what tracing and freezing write in their own: `_convolution`, numbers and sizes as
/// tensors, parameters as constants.
void untrace(ir::GraphModule& gm);

/// One spelling per operation: `aten::add_` → `aten::add` where nobody sees the difference; parameters of
/// convolutions and linear layers taken out of their modules.
void normalise(ir::GraphModule& gm);

/// Operators that tracing or freezing made of a torch.nn module, its parameters constants, become its calls
/// again.
///   %y = aten::conv2d(%x, constant, …)   →   y = Conv2d(x)
void lift(ir::GraphModule& gm);

/// Embeddings in every form become calls with their tables: modules, functions, and the operators that
/// tracing and freezing make of them, when the table is a parameter or constant.
///   %y = aten::embedding(constant, %indices, …)   →   y = Embedding(indices)
void lift_embeddings(ir::GraphModule& gm);

/// The tables of embedding modules alone, where functions stay functions.
void find_embedding_tables(ir::GraphModule& gm);

}  // namespace tsq::passes
