#pragma once

#include "ir/graph_module.h"

namespace tsq::ir {

/// `prim::tsq_forward`: the call of the model's own forward in one of its other methods. Input 0 is self.
/// emit() makes it a call of what forward has become.
extern const c10::Symbol kForwardKind;

[[nodiscard]] bool is_forward_call(const Node* node);

}  // namespace tsq::ir
