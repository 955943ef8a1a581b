#include "passes/place/small_layers.h"

#include <algorithm>

#include "backends/kernels/costs.h"
#include "ir/analysis.h"
#include "ir/methods.h"
#include "operators/layer_work.h"
#include "passes/context/nodes.h"
#include "passes/place/rounding.h"

namespace tsq::passes {
namespace {

using operators::products_of_call;

/// Multiply-accumulates of one run of forward: other methods have runs of their own.
int64_t products_of_network(const Model& model) {
  int64_t sum = 0;
  for (const ir::ModuleCall& call : model.calls) {
    if (const ir::Weighted* weighted = ir::weighted_of(call)) sum += products_of_call(*weighted);
  }
  for (const Node* node : ir::nodes_in_order(*model.graph)) {
    const ir::Weighted* weighted = weighted_at(model, node);
    if (weighted != nullptr && !ir::method_of(node).empty()) sum -= products_of_call(*weighted);
  }
  return sum;
}

/// Null for other nodes.
const ir::Weighted* int8_linear(const Model& model, const PassContext& context, const Node* node) {
  if (!ir::is_module_call(node) || ir::is_opaque(model, node) || node->inputs().size() != 1) return nullptr;
  const ir::Weighted* weighted = int8_layer(model, context, node);
  return weighted != nullptr && weighted->stride.empty() ? weighted : nullptr;
}

}  // namespace

std::unordered_set<const Node*> small_layers(const Model& model, const PassContext& context) {
  const kernels::EngineCosts& costs = kernels::costs_of(context.target);
  const int64_t share = products_of_network(model) / costs.share_of_small_layers;
  const int64_t most = std::min(costs.products_of_small_layer, share);
  std::unordered_set<const Node*> found;
  for (const Node* node : ir::nodes_in_order(*model.graph)) {
    const ir::Weighted* weighted = int8_linear(model, context, node);
    const int64_t products = weighted == nullptr ? 0 : products_of_call(*weighted);
    if (products > 0 && products <= most) found.insert(node);
  }
  return found;
}

}  // namespace tsq::passes
