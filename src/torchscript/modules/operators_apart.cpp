// relu(add(x, y)) → relu(alias(add(x, y))): alias returns its argument, and the executor has no derivative of
// it.

#include "torchscript/modules/operators_apart.h"

#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/passes/constant_propagation.h>
#include <torch/csrc/jit/runtime/autodiff.h>

#include <algorithm>
#include <unordered_set>

#include "ir/analysis.h"
#include "ir/edit.h"

namespace tsq::torchscript {
namespace {

using ir::Node;
using ir::Value;

/// A chunk too, as prim::ConstantChunk: wrongly where a part is not used.
bool is_derived_by_executor(const Node* node) {
  return node->kind() == c10::aten::chunk || (node->kind().is_aten() && torch::jit::isDifferentiable(node));
}

/// The operator that a value comes out of, perhaps as one of a list.
const Node* operator_of(const Value* value) {
  const Node* node = value->node();
  return node->kind() == c10::prim::ListUnpack ? node->input()->node() : node;
}

/// Whether an operator of a method writes into what the method was given.
bool writes_into_argument(const Node* node) {
  const auto* schema = node->maybeSchema();
  if (schema == nullptr || !schema->is_mutable()) return false;
  for (std::size_t i = 0; i < node->inputs().size(); ++i) {
    const auto* alias = schema->arguments().at(i).alias_info();
    if (alias != nullptr && alias->isWrite() && node->input(i)->node()->kind() == c10::prim::Param)
      return true;
  }
  return false;
}

/// Whether the executor derives operators of the method that a node calls. Nothing is inserted in front of
/// one that writes into its argument: autograd would copy what the alias shares.
bool calls_derived_operators(const Node* call) {
  const auto type = call->input(0)->type()->cast<c10::ClassType>();
  const torch::jit::Function* method = type ? type->findMethod(call->s(c10::attr::name)) : nullptr;
  if (method == nullptr) return false;
  auto graph = torch::jit::toGraphFunction(*method).graph()->copy();
  ir::inline_calls(*graph);
  torch::jit::ConstantPropagation(graph);  // `if inplace:`
  const auto nodes = ir::nodes_in_order(*graph);
  return std::ranges::any_of(nodes, is_derived_by_executor) &&
         std::ranges::none_of(nodes, writes_into_argument);
}

bool is_fake_quantize_call(const Node* call) {
  const auto type = call->input(0)->type()->cast<c10::ClassType>();
  return type && type->name() && type->name()->qualifiedName().find(".ao.quantization.") != std::string::npos;
}

/// Whether the executor may derive a node together with a neighbour.
bool may_be_joined(const Node* node) {
  if (node->kind() != c10::prim::CallMethod) return is_derived_by_executor(node);
  return !is_fake_quantize_call(node) && calls_derived_operators(node);
}

}  // namespace

void keep_operators_apart(ir::Graph& graph) {
  std::unordered_set<const Node*> joined;  // of those that were met, which stand before their readers
  for (Node* node : ir::nodes_in_order(graph)) {
    if (!may_be_joined(node)) continue;
    joined.insert(node);
    for (std::size_t i = 0; i < node->inputs().size(); ++i) {
      Value* input = node->input(i);
      const bool is_neighbour = input->type()->isSubtypeOf(*c10::TensorType::get()) &&
                                input->node()->owningBlock() == node->owningBlock() &&
                                joined.contains(operator_of(input));
      if (is_neighbour) node->replaceInput(i, ir::insert_before(node, "aten::alias", {input}));
    }
  }
}

}  // namespace tsq::torchscript
