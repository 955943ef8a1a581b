#pragma once

#include <optional>
#include <string>

#include "ir/model.h"

/// Constants that an operator is called with.
namespace tsq::operators {

/// The slope of a LeakyReLU: module, function, or member of a fused module.
double negative_slope(const ir::ModuleCall& leaky_relu);
/// What a LeakyReLU or PReLU multiplies negative values with: a number, or one for each channel. Undefined
/// for other operators, and where it is not known before the model runs.
at::Tensor slopes_of(const ir::Model& model, const ir::Node* activation);

/// A constant that an operator is called with: a module's attribute, or a function's argument by its name in
/// the schema. Lists of constants are constants.
std::optional<c10::IValue> argument_constant(const ir::Model& model, const ir::Node* op,
                                             const std::string& name);
/// The same where a module has it as `of_module`, or, in a traced file, as the argument `name` of `aten`.
std::optional<c10::IValue> argument_constant(const ir::Model& model, const ir::Node* op,
                                             const std::string& name, c10::Symbol aten,
                                             const std::string& of_module);
/// The place of an argument among the inputs of a function, by its name in the schema; empty when it has none
/// of that name.
std::optional<std::size_t> argument_index(const ir::Node* op, const std::string& name);
/// The argument of a function by its name in the schema; null when it has none of that name.
ir::Value* argument_named(const ir::Node* op, const std::string& name);

/// Whether a node is `x[:]` of a tensor, along any dimension.
[[nodiscard]] bool takes_all(const ir::Node* node);

}  // namespace tsq::operators
