#pragma once

#include <tsq/symbol.h>

#include <optional>
#include <vector>

#include "ir/analysis.h"
#include "ir/graph.h"
#include "ir/origin.h"

/// Numbers on the left of a tensor: `0.1 * x` is mul(x, 0.1) to TorchScript, `2.0 / x`
/// mul(reciprocal(x), 2.0). FX, which traces the Python source, has one operator for each, with the number
/// first.
namespace tsq::ir {

/// The operator of Python that an operator makes together with the one in front: operator.truediv for that
/// product, operator.sub for add(neg(x), 1.0). None for others.
[[nodiscard]] std::optional<Symbol> symbol_of_both(const Origin& origin);

/// Whether a node is the reciprocal of `2.0 / x`, which is no operator of its own.
[[nodiscard]] bool is_part_of_division(const Node* node, const Origin& origin);

/// The arguments in the order in which FX has them; of `2.0 / x` the number and x.
[[nodiscard]] std::vector<Argument> arguments_as_written(const Node* node);

/// The node that reads them: the reciprocal of `2.0 / x`, the node itself else.
[[nodiscard]] Node* reader_of_arguments(Node* node);

}  // namespace tsq::ir
