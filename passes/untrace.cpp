// Tracing and freezing write some things in a form that no one wrote in Python: here they get the plain one
// back.
//   aten::_convolution(x, w, b, …, transposed, …)   →   aten::conv2d(x, w, b, …)
//   aten::Int(prim::NumToTensor(n))                 →   n
//   prim::Constant[value=<Tensor>]                  →   an attribute of the graph module

#include <fmt/format.h>
#include <torch/csrc/jit/ir/constants.h>

#include <vector>

#include "passes/passes.h"

namespace tsq::passes {
namespace {

using ir::GraphModule;
using ir::Node;
using ir::Value;

std::size_t length_of(const Value* list) {
  if (list->node()->kind() == c10::prim::ListConstruct) return list->node()->inputs().size();
  const auto constant = torch::jit::toIValue(list);
  return constant && constant->isIntList() ? constant->toIntVector().size() : 0;
}

void replace(GraphModule& gm, Node* node, const std::string& kind, const std::vector<Value*>& inputs) {
  Node* made = gm.graph->create(c10::Symbol::fromQualString(kind), inputs, 1);
  made->insertBefore(node);
  made->output()->setType(node->output()->type());
  if (node->output()->hasDebugName()) made->output()->setDebugName(node->output()->debugNameBase());
  made->setSourceRange(node->sourceRange());
  ir::take_scope(made, node);
  node->output()->replaceAllUsesWith(made->output());
  node->destroy();
}

/// aten::_convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups, …)
void restore_convolution(GraphModule& gm, Node* node) {
  const auto transposed = torch::jit::constant_as<bool>(node->input(6));
  const std::size_t dims = length_of(node->input(3));
  if (!transposed || dims < 1 || dims > 3) return;
  std::vector<Value*> inputs{node->input(0), node->input(1), node->input(2), node->input(3), node->input(4)};
  if (*transposed) {
    inputs.insert(inputs.end(), {node->input(7), node->input(8), node->input(5)});
  } else {
    inputs.insert(inputs.end(), {node->input(5), node->input(8)});
  }
  replace(gm, node, fmt::format("aten::conv{}{}d", *transposed ? "_transpose" : "", dims), inputs);
}

/// aten::_convolution_mode(input, weight, bias, stride, "same", dilation, groups)
void restore_convolution_with_word(GraphModule& gm, Node* node) {
  const std::size_t dims = length_of(node->input(3));
  if (dims < 1 || dims > 3) return;
  const std::string kind = fmt::format("aten::conv{}d", dims);
  replace(gm, node, kind, {node->inputs().begin(), node->inputs().end()});
}

/// The number behind Int(NumToTensor(n)), which tracing puts round sizes.
void restore_size(Node* node) {
  const Node* tensor = node->input(0)->node();
  if (tensor->kind() == c10::prim::NumToTensor &&
      tensor->input(0)->type()->isSubtypeOf(*node->output()->type()))
    node->output()->replaceAllUsesWith(tensor->input(0));
}

/// A constant with dimensions is data of the model: FX would see an attribute.
void lift_tensor(GraphModule& gm, Node* node) {
  if (node->output()->type()->kind() != c10::TypeKind::TensorType || !node->hasAttribute(c10::attr::value))
    return;
  const at::Tensor tensor = node->t(c10::attr::value);
  if (!tensor.defined() || tensor.dim() == 0) return;
  const torch::jit::WithInsertPoint guard(node);
  node->output()->replaceAllUsesWith(ir::insert_attribute(gm, "constant", tensor, c10::TensorType::get()));
}

}  // namespace

void untrace(GraphModule& gm) {
  for (Node* node : ir::nodes_in_order(*gm.graph)) {
    if (node->kind() == c10::aten::_convolution) {
      restore_convolution(gm, node);
    } else if (node->kind() == c10::aten::_convolution_mode) {
      restore_convolution_with_word(gm, node);
    } else if (node->kind() == c10::aten::Int) {
      restore_size(node);
    } else if (node->kind() == c10::prim::Constant) {
      lift_tensor(gm, node);
    }
  }
  ir::eliminate_dead_code(*gm.graph);
}

}  // namespace tsq::passes
