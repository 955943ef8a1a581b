#pragma once

#include <string_view>

#include "passes/context/pass_context.h"

namespace tsq::passes {

/// A layer that was placed in int8 is computed in float after all, with its float weight. It reads what was
/// rounded for it alone not rounded; what it returns is rounded as before.
void compute_in_float(ir::Model& model, ir::Node* layer, ir::Reason reason, std::string_view detail = {});

/// A layer in float needs nothing of what was seen of its input.
void forget_input(ir::Weighted& weighted);

/// An operator is computed in int8 after all, and its entry of the report says so.
void compute_in_int8(ir::NodeRecord& record);

/// An operator that prepare observed stays float as if it had not: it has no QConfig.
void leave_out(ir::Model& model, ir::Node* node, ir::Reason reason, std::string_view detail);

/// A float operator reads float values as they are: only what comes out of a kernel is rounded already.
/// Whether it read others.
bool read_exact_values(ir::Model& model, ir::Node* node);

}  // namespace tsq::passes
