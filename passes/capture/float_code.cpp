#include "passes/capture/float_code.h"

#include <torch/csrc/jit/ir/constants.h>

#include "ir/analysis.h"
#include "passes/capture/told_dtypes.h"
#include "passes/context/names.h"

namespace tsq::passes {
namespace {

/// The tensor that a constant becomes; undefined: it stays.
at::Tensor replaced_constant(const Node* node, FloatTensors& tensors) {
  const auto constant =
      node->kind() == c10::prim::Constant ? torch::jit::toIValue(node->output()) : std::nullopt;
  if (!constant || !constant->isTensor() || !constant->toTensor().defined()) return {};
  // Tracing writes numbers as tensors without dimensions, of dtype double.
  const at::Tensor& tensor = constant->toTensor();
  if (tensor.dim() == 0 && tensor.scalar_type() == c10::ScalarType::Double) return {};
  const at::Tensor made = tensors.of(tensor);
  return made.is_same(tensor) ? at::Tensor() : made;
}

template <typename Visit>
void for_each_node_of_methods(const Module& module, const Visit& visit) {
  for (const Module& each : module.modules()) {
    for (const auto& method : each.get_methods()) {
      for (Node* node : ir::nodes_in_order(*torch::jit::toGraphFunction(method.function()).graph()))
        visit(node);
    }
  }
}

}  // namespace

void replace_constant(Node* node, FloatTensors& tensors) {
  const at::Tensor made = replaced_constant(node, tensors);
  if (!made.defined()) return;
  const torch::jit::WithInsertPoint guard(node);
  node->output()->replaceAllUsesWith(node->owningGraph()->insertConstant(made));
}

bool tells_replaced_dtype(const Node* node, const Dtypes& replaced) {
  const auto dtype = constant_dtype(node);
  return dtype && replacement(replaced, *dtype) != *dtype;
}

void replace_told_dtype(Node* node, const Dtypes& replaced) {
  const auto dtype = static_cast<int64_t>(replacement(replaced, *constant_dtype(node)));
  const torch::jit::WithInsertPoint guard(node);
  node->replaceInput(*dtype_position(node), node->owningGraph()->insertConstant(dtype));
}

void replace_in_code(Module& module, const Dtypes& replaced, FloatTensors& tensors) {
  bool is_concerned = false;
  for_each_node_of_methods(module, [&](const Node* node) {
    is_concerned |= tells_replaced_dtype(node, replaced) || replaced_constant(node, tensors).defined();
  });
  if (!is_concerned) return;
  module = module.clone(/*inplace=*/true);
  for_each_node_of_methods(module, [&](Node* node) {
    if (tells_replaced_dtype(node, replaced)) {
      replace_told_dtype(node, replaced);
    } else {
      replace_constant(node, tensors);
    }
  });
}

}  // namespace tsq::passes
