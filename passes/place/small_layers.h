#pragma once

#include <unordered_set>

#include "passes/context/pass_context.h"

namespace tsq::passes {

/// The linear layers placed in int8 that have a small part of the network's multiply-accumulates, and so few
/// that the float kernel is as fast (EngineCosts::products_of_small_layer, share_of_small_layers).
[[nodiscard]] std::unordered_set<const ir::Node*> small_layers(const ir::Model& model,
                                                               const PassContext& context);

}  // namespace tsq::passes
