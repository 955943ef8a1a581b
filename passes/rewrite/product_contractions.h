#pragma once

#include <optional>

#include "passes/rewrite/constant_factors.h"
#include "passes/rewrite/product.h"

/// Products over several dimensions.
namespace tsq::passes {

/// Where the input's last dimensions alone are multiplied, and none is common to all three tensors.
std::optional<Product> einsum(const ConstantFactors& factors, ir::Node* node);
/// Over any dimensions of the input: they are moved after the others where they do not stand there.
std::optional<Product> tensordot(const ConstantFactors& factors, ir::Node* node);

}  // namespace tsq::passes
