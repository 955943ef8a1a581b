#pragma once

#include <string>
#include <vector>

#include "passes/context/pass_context.h"
#include "passes/rewrite/product.h"

namespace tsq::passes {

/// The nodes of a lifted product: what it was, and what it has become.
struct LiftedProduct {
  ir::Node* product{};
  ir::Node* last{};
  ir::Node* layer{};
  std::vector<ir::Node*> after{};  ///< what is done to the layer's output, the last first
};

/// Puts a linear layer at `path` after a product, whose readers read the layer from then on.
LiftedProduct put_layer(ir::Model& model, ir::Node* node, const Product& product, std::string path);
/// Removes the layer; the product has its readers again.
void take_back(const LiftedProduct& lifted);

}  // namespace tsq::passes
