#pragma once

#include "ir/graph_module.h"

namespace tsq::passes {

/// Views of what int8 kernels return: these lay channels last where the float operators did not, and view
/// refuses that. Where nobody writes into the view, it may be a copy; otherwise the memory that it is a view
/// of becomes contiguous.
///   view(dequantize(y))                  →   reshape(dequantize(y))
///   z = view(dequantize(y)); z.add_(1)   →   z = view(contiguous(dequantize(y))); z.add_(1)
void view_any_layout(ir::GraphModule& gm);

}  // namespace tsq::passes
