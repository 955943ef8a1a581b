#pragma once

#include <map>
#include <optional>
#include <string_view>

#include "passes/context/pass_context.h"
#include "passes/rewrite/expression.h"

namespace tsq::passes {

/// The values that an expression's leaves stand for: "x", and constants of the model by their names.
using Leaves = std::map<std::string_view, ir::Value*>;

/// The leaves of an expression that computes the only output of a node; empty for other nodes.
[[nodiscard]] std::optional<Leaves> match_expression(const ir::Model& model, ir::Node* last,
                                                     const expressions::Expression& expression);

}  // namespace tsq::passes
