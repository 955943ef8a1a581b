#pragma once

#include <unordered_set>

#include "passes/context/pass_context.h"

namespace tsq::passes {

/// The observers directly in front of what a fused program's attention reads: queries, keys and values. Empty
/// for other targets.
[[nodiscard]] std::unordered_set<const ir::Node*> attention_roundings(const ir::Model& model,
                                                                      const PassContext& context);

}  // namespace tsq::passes
