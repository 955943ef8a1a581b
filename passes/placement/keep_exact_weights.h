#pragma once

#include <tsq/report.h>

#include "ir/graph_module.h"

namespace tsq::passes {

/// Reference layers that read float values keep their weights as they are: no int8 kernel takes them, and
/// rounding would only cost accuracy.
///   linear(x, dequantize(quantize(w)))   →   linear(x, w)
void keep_exact_weights(ir::GraphModule& gm, Report& report);

}  // namespace tsq::passes
