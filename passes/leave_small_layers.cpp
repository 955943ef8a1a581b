// A linear layer that gives float values, and does next to nothing of the network's work, stays float:
// LibTorch's kernels that quantize their input take 13 microseconds to begin with, the float one 3.
//   linear(dequantize(quantize(x)))   →   linear(x), or linear(dequantize(x)) of bytes that a kernel gives

#include <algorithm>

#include "ir/quantize_operators.h"
#include "modules/weighted.h"
#include "passes/decision_index.h"
#include "passes/layer_in_float.h"
#include "passes/passes.h"

namespace tsq::passes {
namespace {

using ir::GraphModule;
using ir::Node;

/// Up to so many multiply-accumulates of one call the float kernel is faster, at 64 rows and more as well.
constexpr int64_t kFewProducts = 1 << 18;
/// The share of the network's multiply-accumulates that a layer may have.
constexpr int64_t kSmallShare = 100;

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

int64_t products_of_network(const GraphModule& gm) {
  int64_t sum = 0;
  for (const ir::ModuleCall& call : gm.calls) {
    if (const ir::Weighted* weighted = ir::weighted_of(call)) sum += products_of(*weighted);
  }
  return sum;
}

bool gives_float(const Node* layer) {
  return std::ranges::none_of(layer->output()->uses(),
                              [](const torch::jit::Use& use) { return use.user->kind() == ir::kQuantize; });
}

class SmallLayers {
 public:
  SmallLayers(GraphModule& gm, Report& report) : gm_(gm), decisions_(report), all_(products_of_network(gm)) {}

  void run() {
    for (Node* node : ir::nodes_in_order(*gm_.graph)) {
      if (is_small(node)) {
        compute_in_float(gm_, node, decisions_.of(node),
                         "it is faster in float, and has less than a hundredth of the network's work");
      }
    }
    ir::eliminate_dead_code(*gm_.graph);
  }

 private:
  bool is_small(const Node* node) const {
    const ir::Weighted* weighted =
        ir::is_module_call(node) && !ir::is_standalone(gm_, node) && node->inputs().size() == 1
            ? ir::weighted_of(ir::call_of(gm_, node))
            : nullptr;
    if (weighted == nullptr || !weighted->weight_qparams || !is_linear(*weighted) || !gives_float(node))
      return false;
    const int64_t products = products_of(*weighted);
    return products > 0 && products <= kFewProducts && products * kSmallShare <= all_;
  }

  GraphModule& gm_;
  DecisionIndex decisions_;
  int64_t all_;  ///< multiply-accumulates
};

}  // namespace

void leave_small_layers(GraphModule& gm, Report& report) { SmallLayers(gm, report).run(); }

}  // namespace tsq::passes
