#pragma once

#include <tsq/symbol.h>

#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.h"
#include "ir/origin.h"

namespace tsq::ir {

/// Whether torch.nn.functional defines a function in Python beside an operator of torch: a call of the
/// operator itself is not a call of it.
[[nodiscard]] bool is_python_functional(std::string_view name);

/// Whether an operator was written `value.name(…)`: a call of a tensor's method, and not of a function, also
/// not of one in a module that its author calls as he likes (`import torch.nn.functional as fn`). What
/// PyTorch names, and what the arguments can be, decides.
[[nodiscard]] bool calls_method(const Node* node, const Origin& origin);

/// What FX, which traces the Python source, takes an operator for that was written as a call of its name;
/// several where the text leaves it open.
[[nodiscard]] std::vector<Symbol> called_symbols(const Node* node, const Origin& origin);

/// The name of the operator that does not write into its argument.
[[nodiscard]] inline std::string_view without_underscore(std::string_view name) {
  return name.ends_with('_') && !name.ends_with("__") ? name.substr(0, name.size() - 1) : name;
}

/// Whether an operator is called by this name: "relu_" and "relu" are names of aten::relu, "concat" is one of
/// aten::cat, because TorchScript writes one name alone for some operators that have several.
[[nodiscard]] bool names_operator(std::string_view called, std::string_view aten);

}  // namespace tsq::ir
