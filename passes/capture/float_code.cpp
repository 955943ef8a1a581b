#include "passes/capture/float_code.h"

#include <torch/csrc/jit/ir/constants.h>

#include <algorithm>

#include "ir/analysis.h"
#include "ir/edit.h"
#include "passes/capture/capturing.h"
#include "passes/capture/dtypes/told_dtypes.h"
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

bool tells_replaced_dtype(const Node* node, const Dtypes& replaced) {
  const auto dtype = constant_dtype(node);
  return dtype && replacement(replaced, *dtype) != *dtype;
}

}  // namespace

void replace_constant(Node* node, FloatTensors& tensors) {
  const at::Tensor made = replaced_constant(node, tensors);
  if (!made.defined()) return;
  node->output()->replaceAllUsesWith(ir::constant_before(node, made));
}

void replace_told_dtype(Node* node, const Dtypes& replaced) {
  if (!tells_replaced_dtype(node, replaced)) return;
  const auto dtype = static_cast<int64_t>(replacement(replaced, *constant_dtype(node)));
  node->replaceInput(*dtype_position(node), ir::constant_before(node, dtype));
}

void replace_in_code(Module& module, const Dtypes& replaced, FloatTensors& tensors) {
  const bool is_concerned = std::ranges::any_of(nodes_of_methods(module), [&](const Node* node) {
    return tells_replaced_dtype(node, replaced) || replaced_constant(node, tensors).defined();
  });
  if (!is_concerned) return;
  module = module.clone(/*inplace=*/true);
  for (Node* node : nodes_of_methods(module)) {
    replace_told_dtype(node, replaced);
    replace_constant(node, tensors);
  }
}

}  // namespace tsq::passes
