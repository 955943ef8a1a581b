#pragma once

#include "ir/graph.h"

namespace tsq::operators {

/// The quantize node that rounds what becomes of an operator's output: the first one after operators each of
/// which alone reads the output of the one before. Null where there is none.
[[nodiscard]] ir::Node* quantize_after(const ir::Node* op);

}  // namespace tsq::operators
