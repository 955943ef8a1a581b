// One spelling per operation, so that later passes see one form.

#include <algorithm>
#include <array>

#include "modules/weighted.h"
#include "passes/passes.h"

namespace tsq::passes {
namespace {

using ir::GraphModule;
using ir::Node;
using ir::Value;

/// Python's `x += y` is traced by FX as `x = x + y`.
constexpr std::array kInPlaceOperators{
    std::pair{"aten::add_", "aten::add"},
    std::pair{"aten::mul_", "aten::mul"},
    std::pair{"aten::sub_", "aten::sub"},
    std::pair{"aten::div_", "aten::div"},
};

/// Whether the output of `node` may be the same memory as its first input.
bool may_alias_input(const GraphModule& gm, const Node* node) {
  if (ir::is_module_call(node)) return ir::weighted_of(ir::call_of(gm, node)) == nullptr;
  if (node->kind() == c10::prim::CallFunction || node->kind() == c10::prim::CallMethod) return true;
  const c10::FunctionSchema* schema = node->maybeSchema();
  if (schema == nullptr || schema->returns().empty()) return true;
  return schema->returns().front().alias_info() != nullptr;
}

/// The value whose memory `value` may share, followed back as far as it goes.
Value* memory_root(const GraphModule& gm, Value* value) {
  while (value->node()->kind() != c10::prim::Param && !value->node()->inputs().empty() &&
         may_alias_input(gm, value->node())) {
    const auto operands = ir::operands(value->node());
    if (operands.empty() || !ir::holds_tensor(operands.front())) break;
    value = operands.front();
  }
  return value;
}

/// Whether anything after `node` reads memory that `value` may share, other than through the node's own
/// output.
bool is_read_later(const GraphModule& gm, const Value* value, const Node* node) {
  for (const auto& use : value->uses()) {
    if (use.user == node) continue;
    if (use.user->owningBlock() != node->owningBlock() || !use.user->isBefore(node)) return true;
    const bool carries = may_alias_input(gm, use.user) || !use.user->blocks().empty();
    if (!carries) continue;
    for (const Value* output : use.user->outputs()) {
      if (is_read_later(gm, output, node)) return true;
    }
  }
  return false;
}

void make_operators_out_of_place(GraphModule& gm) {
  for (Node* node : ir::nodes_in_order(*gm.graph)) {
    for (const auto& [in_place, out_of_place] : kInPlaceOperators) {
      if (node->kind() != c10::Symbol::fromQualString(in_place)) continue;
      const Value* root = memory_root(gm, node->input(0));
      const bool is_state = root->node()->kind() == c10::prim::GetAttr;
      if (is_state || root->node()->owningBlock() != node->owningBlock() || is_read_later(gm, root, node))
        continue;
      Node* made = gm.graph->create(c10::Symbol::fromQualString(out_of_place), node->inputs(), 1);
      made->insertBefore(node);
      made->output()->setType(node->output()->type());
      made->setSourceRange(node->sourceRange());
      ir::take_scope(made, node);
      node->output()->replaceAllUsesWith(made->output());
      node->destroy();
      break;
    }
  }
}

void take_parameters_out_of_modules(GraphModule& gm) {
  for (ir::ModuleCall& call : gm.calls) {
    if (call.module && modules::is_weighted(call.type))
      call.weighted = modules::weighted_parameters(call.type, *call.module);
  }
}

}  // namespace

void normalise(GraphModule& gm) {
  take_parameters_out_of_modules(gm);
  make_operators_out_of_place(gm);
}

}  // namespace tsq::passes
