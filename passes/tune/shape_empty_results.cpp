// Kernels that tensors without elements need care for.
//   linear(x)      →   y = linear(x); if x is empty: y = unflatten(y, 0, all sizes of x but the last)
//   hardswish(x)   →   if x is empty: x, else: hardswish(x)

#include "backends/kernels/fault_conditions.h"
#include "ir/analysis.h"
#include "ir/edit.h"
#include "passes/context/nodes.h"
#include "passes/tune/passes.h"

namespace tsq::passes {
namespace {

bool needs(const Model& model, const PassContext& context, const Node* node, kernels::Precaution precaution) {
  if (node->inputs().empty() || node->outputs().size() != 1 || !ir::holds_tensor(node->input(0)))
    return false;
  const kernels::KernelUse use{.target = context.target,
                               .model = model,
                               .op = node,
                               .kernel = node->kind().toQualString(),
                               .input = kernels::Operand(model, node->input(0))};
  return kernels::fault_of(use, precaution) != nullptr;
}

bool loses_dimensions(const Model& model, const PassContext& context, const Node* node) {
  return needs(model, context, node, kernels::Precaution::ShapedWhenEmpty);
}

/// An operator of LibTorch may run on floats as well.
bool fails_when_empty(const Model& model, const PassContext& context, const Node* node) {
  const bool is_kernel = !node->kind().is_aten() || ir::placement_of(model, node) == ir::Placement::Int8;
  return is_kernel && needs(model, context, node, kernels::Precaution::NotWhenEmpty);
}

/// `if x is empty`, in front of a node, with two blocks to fill.
Node* branch_on_empty(Model& model, Value* x, Node* before, Node* kernel) {
  const ir::Rewriter in_front(model, before, kernel);
  Value* values = in_front.op("aten::numel", {x}, c10::IntType::get());
  Value* is_empty = in_front.op("aten::eq", {values, in_front.constant(int64_t{0})}, c10::BoolType::get());
  Node* made = in_front.node(c10::prim::If, {is_empty});
  made->addBlock();
  made->addBlock();
  return made;
}

void shape(Model& model, Node* kernel) {
  const auto ints = c10::ListType::ofInts();
  Node* made = branch_on_empty(model, kernel->input(0), kernel->next(), kernel);
  kernel->output()->replaceAllUsesWith(made->output());
  torch::jit::Block* changed = made->blocks()[0];
  const ir::Rewriter in_block(model, changed->return_node(), kernel);
  const auto constant = [&](int64_t value) { return in_block.constant(value); };
  Value* sizes = in_block.op("aten::size", {kernel->input(0)}, ints);
  Value* leading = in_block.op("aten::slice", {sizes, constant(0), constant(-1), constant(1)}, ints);
  changed->registerOutput(in_block.op("aten::unflatten", {kernel->output(), constant(0), leading}));
  made->blocks()[1]->registerOutput(kernel->output());
}

void skip(Model& model, Node* kernel) {
  Node* made = branch_on_empty(model, kernel->input(0), kernel, kernel);
  kernel->output()->replaceAllUsesWith(made->output());
  made->blocks()[0]->registerOutput(kernel->input(0));
  kernel->moveBefore(made->blocks()[1]->return_node());
  made->blocks()[1]->registerOutput(kernel->output());
}

}  // namespace

bool shape_empty_results(Model& model, const PassContext& context) {
  const bool are_shaped = change_nodes(
      model, [&](const Node* node) { return loses_dimensions(model, context, node); },
      [&](Node* node) { shape(model, node); });
  const bool are_skipped = change_nodes(
      model, [&](const Node* node) { return fails_when_empty(model, context, node); },
      [&](Node* node) { skip(model, node); });
  return are_shaped || are_skipped;
}

}  // namespace tsq::passes
