// An activation after a convolution whose int8 kernel takes longer than dequantize, the float operator and
// quantize stays between the two.
//   observer(elu(observer(x)))   does not become   quantized::elu(x)

#include <algorithm>

#include "backends/choices/offers.h"
#include "backends/kernels/lowering_table.h"
#include "ir/analysis.h"
#include "operators/arguments.h"
#include "operators/functional_weighted.h"
#include "passes/context/nodes.h"
#include "passes/place/passes.h"
#include "passes/place/rounding.h"

namespace tsq::passes {
namespace {

bool is_convolution(const Model& model, const Node* node) {
  if (ir::is_module_call(node)) {
    const ir::Weighted* weighted = ir::weighted_of(ir::call_of(model, node));
    return weighted != nullptr && !weighted->stride.empty();
  }
  return std::ranges::any_of(ir::targets(model, node), [](const Symbol& target) {
    return operators::module_of_functional(target.name).starts_with("torch.nn.Conv");
  });
}

bool is_sum(const Model& model, const Node* node) {
  return std::ranges::any_of(ir::targets(model, node), [](const Symbol& target) {
    const auto* const kernel = kernels::binary_kernel(target.name);
    return kernel != nullptr && kernel->kernel == "quantized::add";
  });
}

/// Whether the channels of a value lie side by side: int8 convolutions leave them so, and sums as they are.
bool has_channels_last(const Model& model, ir::Value* value) {
  const Node* node = exact(model, value)->node();
  if (is_convolution(model, node)) return true;
  return is_sum(model, node) && has_channels_last(model, ir::operands(node).front());
}

bool is_slow(const Model& model, const PassContext& context, const Node* node) {
  const auto operands = ir::operands(node);
  if (operands.empty() || node->outputs().size() != 1 || ir::stays_float(model, node)) return false;
  if (!is_rounded(model, context, operands.front())) return false;
  return kernels::unary_offer(context.target, model, node).is_slow &&
         has_channels_last(model, operands.front());
}

}  // namespace

bool activate_in_float(Model& model, const PassContext& context) {
  return change_nodes(
      model, [&](const Node* node) { return is_slow(model, context, node); },
      [&](Node* node) {
        ir::leave_float(model, node, ir::Placement::Reference, ir::Reason::SlowActivation);
      });
}

}  // namespace tsq::passes
