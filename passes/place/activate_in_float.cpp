// An activation after a convolution whose int8 kernel takes longer than dequantize, the float operator and
// quantize stays between the two.
//   quantize(elu(dequantize(x)))   does not become   quantized::elu(x)

#include <algorithm>

#include "backends/kernels/float_output.h"
#include "backends/kernels/kernel_limits.h"
#include "backends/kernels/lowering_table.h"
#include "ir/analysis.h"
#include "ir/quantize_operators.h"
#include "operators/functional_weighted.h"
#include "passes/decision_index.h"
#include "passes/placement/gates.h"
#include "passes/placement/layer_in_float.h"
#include "passes/placement/passes.h"

namespace tsq::passes {
namespace {

using ir::Model;
using ir::Node;

bool is_convolution(const Model& gm, const Node* node) {
  if (ir::is_module_call(node)) {
    const ir::Weighted* weighted = ir::weighted_of(ir::call_of(gm, node));
    return weighted != nullptr && !weighted->stride.empty();
  }
  return std::ranges::any_of(ir::targets(gm, node), [](const Symbol& target) {
    return operators::module_of_functional(target.name).starts_with("torch.nn.Conv");
  });
}

bool is_sum(const Model& gm, const Node* node) {
  return std::ranges::any_of(ir::targets(gm, node), [](const Symbol& target) {
    const auto* const kernel = kernels::binary_kernel(target.name);
    return kernel != nullptr && kernel->kernel == "quantized::add";
  });
}

/// Whether the channels of a value lie side by side: int8 convolutions leave them so, and sums as they are.
bool has_channels_last(const Model& gm, ir::Value* value) {
  const Node* node = exact(value)->node();
  if (is_convolution(gm, node)) return true;
  return is_sum(gm, node) && has_channels_last(gm, ir::operands(node).front());
}

bool is_slow(const Model& gm, const Node* node) {
  const bool reads_quantized =
      !ir::operands(node).empty() && ir::operands(node).front()->node()->kind() == ir::kDequantize;
  if (!reads_quantized || node->outputs().size() != 1) return false;
  const auto targets = ir::targets(gm, node);
  return std::ranges::any_of(targets,
                             [&](const Symbol& target) {
                               const auto* const kernel = kernels::unary_kernel(target);
                               return kernel != nullptr && kernels::is_slower_than_float(
                                                               kernel->kernel, kernels::slopes_of(gm, node));
                             }) &&
         has_channels_last(gm, ir::operands(node).front());
}

}  // namespace

void activate_in_float(Model& gm, Report& report) {
  const DecisionIndex decisions(report);
  for (Node* node : ir::nodes_in_order(*gm.graph)) {
    if (!is_slow(gm, node)) continue;
    ir::set_stays_float(node);
    report_left_float(
        decisions.of(node),
        "computed in float between dequantize and quantize: its int8 kernel takes several times "
        "as long after a convolution");
  }
}

}  // namespace tsq::passes
