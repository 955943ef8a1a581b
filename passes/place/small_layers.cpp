#include "passes/placement/small_layers.h"

#include <algorithm>

#include "backends/kernels/fault_conditions.h"
#include "backends/kernels/kernel_limits.h"
#include "ir/analysis.h"
#include "ir/methods.h"
#include "operators/weighted.h"

namespace tsq::passes {
namespace {

using ir::Model;
using ir::Node;

/// Up to this many multiply-accumulates of one call the float kernel is faster, at 64 rows and more as well.
constexpr int64_t kFewProducts = 1 << 18;

bool is_linear(const ir::Weighted& weighted) { return weighted.stride.empty(); }

/// Multiply-accumulates of a call with an input of the calibrated size, but for the edges of convolutions; 0
/// where no size is known.
int64_t products_of(const ir::Weighted& weighted) {
  const at::Tensor& sizes = weighted.input.sizes;
  if (!sizes.defined() || sizes.numel() == 0) return 0;
  const int64_t inputs = sizes.prod().item<int64_t>();
  if (is_linear(weighted)) return inputs * weighted.weight.size(0);
  int64_t strides = 1;
  for (const int64_t stride : weighted.stride) strides *= stride;
  return inputs / (weighted.weight.size(1) * weighted.groups * strides) * weighted.weight.numel();
}

/// Of one run of forward: other methods have runs of their own.
int64_t products_of_network(const Model& gm) {
  int64_t sum = 0;
  for (const ir::ModuleCall& call : gm.calls) {
    if (const ir::Weighted* weighted = ir::weighted_of(call)) sum += products_of(*weighted);
  }
  const Node* methods = ir::methods_node(gm);
  for (const Node* node : ir::nodes_in_order(*gm.graph)) {
    if (methods == nullptr || !ir::is_module_call(node) || ir::method_of(node).empty()) continue;
    if (const ir::Weighted* weighted = ir::weighted_of(ir::call_of(gm, node))) sum -= products_of(*weighted);
  }
  return sum;
}

const ir::Weighted* quantized_linear(const Model& gm, const Node* node) {
  if (!ir::is_module_call(node) || ir::is_standalone(gm, node) || node->inputs().size() != 1) return nullptr;
  const ir::Weighted* weighted = ir::weighted_of(ir::call_of(gm, node));
  return weighted != nullptr && weighted->weight_qparams && is_linear(*weighted) ? weighted : nullptr;
}

}  // namespace

std::unordered_set<const Node*> small_layers(const Model& gm) {
  const int64_t most = products_of_network(gm) / kernels::share_of_small_layers(kernels::current_engine());
  std::unordered_set<const Node*> found;
  for (const Node* node : ir::nodes_in_order(*gm.graph)) {
    const ir::Weighted* weighted = quantized_linear(gm, node);
    const int64_t products = weighted == nullptr ? 0 : products_of(*weighted);
    if (products > 0 && products <= std::min(kFewProducts, most)) found.insert(node);
  }
  return found;
}

}  // namespace tsq::passes
