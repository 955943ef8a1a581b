// The largest of several tensors without stacking them, which takes twenty times as long.
//   max(stack([a, b, c], dim), dim)[0]   →   maximum(maximum(a, b), c)

#include "ir/analysis.h"
#include "ir/constants.h"
#include "ir/edit.h"
#include "passes/context/nodes.h"
#include "passes/rewrite/passes.h"

namespace tsq::passes {
namespace {

/// The operator of two tensors that chooses as a node does of many; empty for other nodes.
std::optional<c10::Symbol> chooser(const Node* node) {
  const bool has_indices = node->outputs().size() == 2;
  if (has_indices && node->output(1)->hasUses()) return std::nullopt;
  if (has_indices ? node->kind() == c10::aten::max : node->kind() == c10::aten::amax)
    return c10::aten::maximum;
  if (has_indices ? node->kind() == c10::aten::min : node->kind() == c10::aten::amin)
    return c10::aten::minimum;
  return std::nullopt;
}

/// The one dimension that an argument names.
std::optional<int64_t> dimension(const Value* value) {
  const auto constant = ir::constant_value(value);
  if (!constant) return std::nullopt;
  if (constant->isInt()) return constant->toInt();
  const bool is_one = constant->isIntList() && constant->toIntList().size() == 1;
  return is_one ? std::optional(constant->toIntVector().front()) : std::nullopt;
}

/// The tensors of which a node chooses, made into a list for it; null for other nodes.
const Node* choices(const Node* node) {
  if (!chooser(node) || node->inputs().size() != 3 || ir::flag_constant(node->input(2)) != false)
    return nullptr;
  const Node* stack = node->input(0)->node();
  if (stack->kind() != c10::aten::stack || stack->output()->uses().size() != 1) return nullptr;
  const auto dim = dimension(stack->input(1));
  const Node* list = stack->input(0)->node();
  const bool chooses = dim && dim == dimension(node->input(1)) && list->kind() == c10::prim::ListConstruct &&
                       list->output()->uses().size() == 1 && list->inputs().size() > 1;
  return chooses ? list : nullptr;
}

Value* chosen(Model& model, Node* node, const Node* list) {
  const ir::Rewriter in_front(model, node);
  Value* result = const_cast<Value*>(list->input(0));
  for (const Value* next : list->inputs().slice(1))
    result = in_front.op(chooser(node)->toQualString(), {result, const_cast<Value*>(next)});
  return result;
}

}  // namespace

bool maximum_of_stack(Model& model, const PassContext& /*context*/) {
  const bool changed = change_nodes(model, [&](Node* node) {
    const Node* list = choices(node);
    if (list != nullptr) node->output(0)->replaceAllUsesWith(chosen(model, node, list));
    return list != nullptr;
  });
  return ir::eliminate_dead_code(*model.graph) || changed;
}

}  // namespace tsq::passes
