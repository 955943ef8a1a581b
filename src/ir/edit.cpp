#include "ir/edit.h"

#include <torch/csrc/jit/ir/constants.h>

namespace tsq::ir {

Value* constant_before(GraphModule& gm, Node* before, const c10::IValue& value) {
  const torch::jit::WithInsertPoint guard(before);
  return gm.graph->insertConstant(value);
}

Value* attribute_before(GraphModule& gm, Node* before, const std::string& name, const at::Tensor& value) {
  const torch::jit::WithInsertPoint guard(before);
  return insert_attribute(gm, name, value, c10::TensorType::get());
}

Value* insert_before(GraphModule& gm, Node* before, const char* kind, const std::vector<Value*>& inputs) {
  Node* node = gm.graph->create(c10::Symbol::fromQualString(kind), inputs, 1);
  node->insertBefore(before);
  return node->output();
}

void take_branch(Node* branches, bool condition) {
  Block* block = branches->blocks()[condition ? 0 : 1];
  const std::vector<Value*> results(block->outputs().begin(), block->outputs().end());
  const std::vector<Node*> nodes(block->nodes().begin(), block->nodes().end());
  for (Node* node : nodes) node->moveBefore(branches);
  for (std::size_t i = 0; i < results.size(); ++i) branches->output(i)->replaceAllUsesWith(results[i]);
  branches->destroy();
}

Node* reshape_for_view(GraphModule& gm, Node* view) {
  Node* made = gm.graph->create(c10::aten::reshape, view->inputs(), 1);
  made->insertBefore(view);
  made->output()->copyMetadata(view->output());
  take_scope(made, view);
  view->output()->replaceAllUsesWith(made->output());
  view->destroy();
  return made;
}

}  // namespace tsq::ir
