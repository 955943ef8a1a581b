#pragma once

#include "ir/graph_module.h"

namespace tsq::modules {

/// The module class of a functional convolution, transposed convolution or linear layer:
/// "torch.nn.functional.conv2d" → "torch.nn.Conv2d"; empty for others.
std::string_view module_of_functional(std::string_view function);

/// Weight and arguments of F.linear / F.conv* in a reference graph, when all of them are known now.
std::optional<ir::Weighted> functional_parameters(const ir::GraphModule& gm, const ir::Node* op);

}  // namespace tsq::modules
