#pragma once

#include <initializer_list>
#include <optional>

#include "ir/model.h"

/// For passes that find operators which exporters write out as several.
namespace tsq::passes {

/// What a value is a constant of, or reads of the graph's module; empty for all else.
[[nodiscard]] std::optional<c10::IValue> held_constant(const ir::Model& gm, const ir::Value* value);

/// The number that a value is, or that a tensor of one, which broadcasts to anything, holds; empty for all
/// else.
[[nodiscard]] std::optional<double> constant_number(const ir::Model& gm, const ir::Value* value);

/// Whether a node is the sum of two inputs, none of them multiplied.
[[nodiscard]] bool is_plain_sum(const ir::Model& gm, const ir::Node* node);

/// What a sum adds to a number, which it is to be when one is given; null for other nodes.
[[nodiscard]] ir::Value* plus_number(const ir::Model& gm, const ir::Node* node,
                                     std::optional<double> number = {});

/// Readers of `node` read an operator of the kind instead, which comes before it.
void become(ir::Model& gm, ir::Node* node, c10::Symbol kind, std::initializer_list<ir::Value*> inputs);

}  // namespace tsq::passes
