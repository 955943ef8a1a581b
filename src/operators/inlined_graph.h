#pragma once

#include "ir/model.h"

namespace tsq::operators {

/// A copy of a method's graph with all calls inlined; null where the module has no such method.
std::shared_ptr<ir::Graph> inlined_graph(const torch::jit::Module& module, const std::string& method);

}  // namespace tsq::operators
