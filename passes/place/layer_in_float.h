#pragma once

#include <string_view>

#include "passes/context/pass_context.h"

namespace tsq::passes {

/// A layer that was placed in int8 is computed in float after all, with its float weight. It reads what was
/// rounded for it alone not rounded; what it returns is rounded as before.
void compute_in_float(ir::Model& model, ir::Node* layer, ir::Reason reason, std::string_view detail = {});

/// An operator is computed in int8 after all, and its entry of the report says so.
void compute_in_int8(ir::NodeRecord& record);

/// An operator that prepare observed stays float as if it had not: it has no QConfig.
void leave_out(ir::Model& model, ir::Node* node, ir::Reason reason, std::string_view detail);

/// Whether the only int8 kernel that the engine has for a layer takes many times as long as the float one.
[[nodiscard]] bool is_slow_layer(const ir::Model& model, const PassContext& context, const ir::Node* layer);

}  // namespace tsq::passes
