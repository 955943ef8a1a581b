// Kernels that quantize their input when they run take batches only, where the float operator takes one
// sample without the dimension of a batch as well.
//   linear_dynamic(x)   →   squeeze(linear_dynamic(unsqueeze(x, 0)), 0), where x lacks a batch

#include <algorithm>

#include "backends/kernels/dynamic_kernels.h"
#include "ir/edit.h"
#include "passes/context/nodes.h"
#include "passes/tune/passes.h"

namespace tsq::passes {
namespace {

constexpr int64_t kBatchDims = 2;

bool asks_for_batches(const Node* node) {
  const std::string_view kind = node->kind().toQualString();
  return std::ranges::find(kernels::dynamic_kernels(), kind, &kernels::DynamicKernel::kernel) !=
         kernels::dynamic_kernels().end();
}

void batch(Model& model, Node* kernel) {
  Value* x = kernel->input(0);
  const ir::Rewriter in_front(model, kernel);
  Value* rank = in_front.op("aten::dim", {x}, c10::IntType::get());
  Value* lacks_batch = in_front.op("aten::lt", {rank, in_front.constant(kBatchDims)}, c10::BoolType::get());
  Value* zero = in_front.constant(int64_t{0});
  // function(value, zero) where x lacks a batch, else value
  const auto branch = [&](Node* before, const char* function, Value* value) {
    Node* made = ir::Rewriter(model, before, kernel).node(c10::prim::If, {lacks_batch});
    torch::jit::Block* changed = made->addBlock();
    const ir::Rewriter in_block(model, changed->return_node(), kernel);
    changed->registerOutput(in_block.op(function, {value, zero}));
    made->addBlock()->registerOutput(value);
    return made->output();
  };
  kernel->replaceInput(0, branch(kernel, "aten::unsqueeze", x));
  Value* result = branch(kernel->next(), "aten::squeeze", kernel->output());
  kernel->output()->replaceAllUsesAfterNodeWith(result->node(), result);
}

}  // namespace

bool batch_dynamic_inputs(Model& model, const PassContext& /*context*/) {
  return change_nodes(model, asks_for_batches, [&](Node* node) { batch(model, node); });
}

}  // namespace tsq::passes
