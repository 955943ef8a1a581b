#pragma once

#include "ir/graph_module.h"

namespace tsq::modules {

/// The module class of a functional convolution, transposed convolution or linear layer:
/// "torch.nn.functional.conv2d" → "torch.nn.Conv2d"; empty for others.
std::string_view module_of_functional(std::string_view function);

/// The dtype that the weight of F.linear / F.conv* is rounded to; empty where it is not.
std::optional<c10::ScalarType> functional_weight_dtype(const ir::Node* op);

/// Weight and arguments of F.linear / F.conv* in a reference graph, when all of them are known now.
std::optional<ir::Weighted> functional_parameters(const ir::GraphModule& gm, const ir::Node* op);

/// The same where the weight is not rounded; it may be observed.
std::optional<ir::Weighted> float_functional_parameters(const ir::GraphModule& gm, const ir::Node* op);

/// Packs the weight of F.linear / F.conv* when the model runs, in front of `before` (L-07: what depends on an
/// input is not folded); null where `prepack` does not take the operator's arguments.
ir::Value* packed_at_run(ir::GraphModule& gm, const ir::Node* op, std::string_view prepack, ir::Node* before);

}  // namespace tsq::modules
