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

using ir::Model;
using ir::Node;
using ir::Value;

/// The dimensions of what the node reads, where it is a kernel that asks for batches.
std::optional<int64_t> batch_dims(const Node* node) {
  const std::string_view kind = node->kind().toQualString();
  const auto row = std::ranges::find(kernels::dynamic_kernels(), kind, &kernels::DynamicKernel::kernel);
  if (row == kernels::dynamic_kernels().end()) return std::nullopt;
  return row->batch_dims;
}

class Batching {
 public:
  Batching(Model& gm, Node* kernel) : gm_(gm), kernel_(kernel) {}

  void run(int64_t dims) {
    Value* x = kernel_->input(0);
    const ir::Rewriter in_front(gm_, kernel_);
    Value* rank = in_front.op("aten::dim", {x});
    rank->setType(c10::IntType::get());
    Value* lacks_batch = in_front.op("aten::lt", {rank, in_front.constant(dims)});
    lacks_batch->setType(c10::BoolType::get());
    Value* zero = in_front.constant(int64_t{0});
    Node* batch = branch(lacks_batch, "aten::unsqueeze", x, zero);
    batch->insertBefore(kernel_);
    kernel_->replaceInput(0, batch->output());
    Node* result = branch(lacks_batch, "aten::squeeze", kernel_->output(), zero);
    result->insertAfter(kernel_);
    kernel_->output()->replaceAllUsesAfterNodeWith(result, result->output());
  }

 private:
  /// `function`(value, zero) if `condition` else value.
  Node* branch(Value* condition, const char* function, Value* value, Value* zero) {
    Node* made = gm_.graph->create(c10::prim::If, {condition}, 1);
    torch::jit::Block* changed = made->addBlock();
    Node* call = gm_.graph->create(c10::Symbol::fromQualString(function), {value, zero}, 1);
    changed->appendNode(call);
    changed->registerOutput(call->output());
    made->addBlock()->registerOutput(value);
    for (Node* node : {made, call}) {
      node->setSourceRange(kernel_->sourceRange());
      ir::take_scope(node, kernel_);
    }
    return made;
  }

  Model& gm_;
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
