#pragma once

#include <unordered_set>

#include "ir/model.h"

namespace tsq::passes {

/// The quantized linear layers of a reference graph with a small part of its multiply-accumulates,
/// and so few that the float kernel is as fast: LibTorch's kernels that quantize their input take 13
/// microseconds to begin with, the float one 3.
[[nodiscard]] std::unordered_set<const ir::Node*> small_layers(const ir::Model& gm);

}  // namespace tsq::passes
