// Kernels whose empty results have lost dimensions, where the input may have more than two.
//   linear(x)   →   y = linear(x); if x is empty: y = unflatten(y, 0, all sizes of x but the last)

#include "backends/kernels/fault_conditions.h"
#include "ir/edit.h"
#include "passes/context/nodes.h"
#include "passes/tune/passes.h"

namespace tsq::passes {
namespace {

bool loses_dimensions(const Model& model, const PassContext& context, const Node* node) {
  if (node->inputs().empty() || node->outputs().size() != 1 || !ir::holds_tensor(node->input(0)))
    return false;
  const kernels::KernelUse use{.target = context.target,
                               .model = model,
                               .op = node,
                               .kernel = node->kind().toQualString(),
                               .input = node->input(0)};
  return kernels::fault_of(use, kernels::Precaution::ShapedWhenEmpty) != nullptr;
}

void shape(Model& model, Node* kernel) {
  const auto ints = c10::ListType::ofInts();
  const ir::Rewriter after(model, kernel->next(), kernel);
  Value* values = after.op("aten::numel", {kernel->input(0)}, c10::IntType::get());
  Value* is_empty = after.op("aten::eq", {values, after.constant(int64_t{0})}, c10::BoolType::get());
  Node* made = after.node(c10::prim::If, {is_empty});
  kernel->output()->replaceAllUsesWith(made->output());
  torch::jit::Block* changed = made->addBlock();
  const ir::Rewriter in_block(model, changed->return_node(), kernel);
  const auto constant = [&](int64_t value) { return in_block.constant(value); };
  Value* sizes = in_block.op("aten::size", {kernel->input(0)}, ints);
  Value* leading = in_block.op("aten::slice", {sizes, constant(0), constant(-1), constant(1)}, ints);
  changed->registerOutput(in_block.op("aten::unflatten", {kernel->output(), constant(0), leading}));
  made->addBlock()->registerOutput(kernel->output());
}

}  // namespace

bool shape_empty_results(Model& model, const PassContext& context) {
  return change_nodes(
      model, [&](const Node* node) { return loses_dimensions(model, context, node); },
      [&](Node* node) { shape(model, node); });
}

}  // namespace tsq::passes
