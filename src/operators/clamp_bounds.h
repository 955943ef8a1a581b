#pragma once

#include "ir/model.h"

namespace tsq::operators {

/// What an operator limits its input to; infinite where it does not.
struct ClampBounds {
  double lowest{};
  double highest{};
};

/// The bounds of a relu, relu6, hardtanh or clamp, module or function; empty for other operators and for
/// bounds that are known only when the model runs.
std::optional<ClampBounds> clamp_bounds(const ir::Model& model, const ir::Node* node);

/// Notes at a quantize node that its range stands for a clamp that went away. Who reads what the node reads,
/// without its rounding, has to clamp it.
void set_cut_off(ir::Node* quantize, const ClampBounds& bounds);
/// All that a quantize node cuts off in the place of clamps; empty where there was none.
std::optional<ClampBounds> cut_off(const ir::Node* quantize);

}  // namespace tsq::operators
