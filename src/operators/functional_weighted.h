#pragma once

#include "ir/model.h"

namespace tsq::operators {

/// The module class of a functional convolution, transposed convolution or linear layer:
/// "torch.nn.functional.conv2d" → "torch.nn.Conv2d"; empty for others.
std::string_view module_of_functional(std::string_view function);
/// The other way round; empty for other modules.
std::string_view functional_of_module(std::string_view module);

/// Whether a node calls F.linear, F.conv* or F.conv_transpose*.
[[nodiscard]] bool is_functional_layer(const ir::Model& model, const ir::Node* node);

/// The dtype that the weight of F.linear / F.conv* is rounded to; empty where it is not.
std::optional<c10::ScalarType> functional_weight_dtype(const ir::Node* op);

/// Weight and arguments of F.linear / F.conv* in a reference graph, when all of them are known now.
std::optional<ir::Weighted> functional_parameters(const ir::Model& model, const ir::Node* op);

/// The same where the weight is not rounded; it may be observed.
std::optional<ir::Weighted> float_functional_parameters(const ir::Model& model, const ir::Node* op);

}  // namespace tsq::operators
