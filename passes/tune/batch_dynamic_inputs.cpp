// Kernels that quantize their input when they run take batches only, where the float operator takes one
// sample without the dimension of a batch as well.
//   linear_dynamic(x)   →   squeeze(linear_dynamic(unsqueeze(x, 0)), 0), where x lacks a batch

#include <algorithm>

#include "backends/kernels/dynamic_kernels.h"
#include "ir/analysis.h"
#include "ir/edit.h"
#include "passes/tune/passes.h"

namespace tsq::passes {
namespace {

/// The dimensions of what the node reads, where it is a kernel that asks for batches.
std::optional<int64_t> batch_dims(const Node* node) {
  const std::string_view kind = node->kind().toQualString();
  const auto row = std::ranges::find(kernels::dynamic_kernels(), kind, &kernels::DynamicKernel::kernel);
  if (row == kernels::dynamic_kernels().end()) return std::nullopt;
  return row->batch_dims;
}

class Batching {
 public:
  Batching(Model& model, Node* kernel) : model_(model), kernel_(kernel) {}

  void run(int64_t dims) {
    Value* x = kernel_->input(0);
    const ir::Rewriter in_front(model_, kernel_);
    Value* rank = in_front.op("aten::dim", {x}, c10::IntType::get());
    Value* lacks_batch = in_front.op("aten::lt", {rank, in_front.constant(dims)}, c10::BoolType::get());
    Value* zero = in_front.constant(int64_t{0});
    kernel_->replaceInput(0, branch(kernel_, lacks_batch, "aten::unsqueeze", x, zero));
    Value* result = branch(kernel_->next(), lacks_batch, "aten::squeeze", kernel_->output(), zero);
    kernel_->output()->replaceAllUsesAfterNodeWith(result->node(), result);
  }

 private:
  /// `function`(value, zero) if `condition` else value.
  Value* branch(Node* before, Value* condition, const char* function, Value* value, Value* zero) {
    Node* made = ir::Rewriter(model_, before, kernel_).node(c10::prim::If, {condition});
    torch::jit::Block* changed = made->addBlock();
    const ir::Rewriter in_block(model_, changed->return_node(), kernel_);
    changed->registerOutput(in_block.op(function, {value, zero}));
    made->addBlock()->registerOutput(value);
    return made->output();
  }

  Model& model_;
  Node* kernel_;
};

}  // namespace

bool batch_dynamic_inputs(Model& model, const PassContext& /*context*/) {
  bool has_changed = false;
  for (Node* node : ir::nodes_in_order(*model.graph)) {
    const auto dims = batch_dims(node);
    if (!dims) continue;
    Batching(model, node).run(*dims);
    has_changed = true;
  }
  return has_changed;
}

}  // namespace tsq::passes
