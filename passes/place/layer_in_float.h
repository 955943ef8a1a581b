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

/// Quantized operators alone read what an operator returns rounded. Whether others did.
bool return_exact_value(ir::Model& model, ir::Node* node);

/// The int8 kernels of a layer whose own one takes many times as long as the float one.
enum class SlowLayer {
  No,     ///< its own is not slow, or it has none
  Alone,  ///< the engine has no other for it
  Other   ///< the engine has one that returns float
};
[[nodiscard]] SlowLayer slow_layer(const ir::Model& model, const PassContext& context, const ir::Node* layer);

}  // namespace tsq::passes
