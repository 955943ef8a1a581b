#pragma once

#include <memory>

#include "ir/model.h"

namespace tsq::programs {

/// What a call of a module or a function without weights computes, as operators of ATen: its calls inlined,
/// its attributes and the constants that it is called with known, conditions on them decided. Inputs are the
/// values that the call reads and that are no constants, in their order. Null for what is no such call, and
/// where attributes are written or the result is not a single value.
std::shared_ptr<ir::Graph> expanded_call(const ir::Model& model, const ir::Node* call);

/// What a function that is called computes, in the same way; it may have branches.
std::shared_ptr<ir::Graph> inlined_function(const ir::Node* call);

/// The values that the inputs of `expanded_call` stand for.
std::vector<const ir::Value*> read_by_call(const ir::Node* call);

}  // namespace tsq::programs
