#pragma once

#include <optional>

#include "passes/rewrite/constant_factors.h"
#include "passes/rewrite/product.h"

namespace tsq::passes {

/// The product with a constant that a node computes, however spelt; empty for other nodes. Products that FX
/// never quantizes count where any spelling does.
[[nodiscard]] std::optional<Product> product_at(const ConstantFactors& factors, ir::Node* node);

}  // namespace tsq::passes
