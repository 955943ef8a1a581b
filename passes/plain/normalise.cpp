// One spelling per operation, so that later passes see one form.

#include <torch/csrc/jit/ir/constants.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "ir/analysis.h"
#include "ir/edit.h"
#include "operators/arguments.h"
#include "operators/traits.h"
#include "operators/weighted.h"
#include "passes/context/nodes.h"
#include "passes/plain/passes.h"

namespace tsq::passes {
namespace {

/// Whether a node writes the result of an operator on values into its operand. Python's `x += y` is traced by
/// FX as `x = x + y`; the result of `x.relu_()` has to be kept, which FX loses.
bool computes_in_place(const Node* node) {
  const auto* const row = operators::traits_of(node);
  return node->kind().is_aten() && operators::is_in_place(node->kind().toUnqualString()) &&
         (operators::is_elementwise(row) || operators::has(row, operators::ElementwiseOfTwo));
}

/// Whether the output of `node` may be the same memory as its first input.
bool may_alias_input(const Model& model, const Node* node) {
  if (ir::is_module_call(node)) return ir::weighted_of(ir::call_of(model, node)) == nullptr;
  if (node->kind() == c10::prim::CallFunction || node->kind() == c10::prim::CallMethod) return true;
  const c10::FunctionSchema* schema = node->maybeSchema();
  if (schema == nullptr || schema->returns().empty()) return true;
  return schema->returns().front().alias_info() != nullptr;
}

/// The value whose memory `value` may share, followed back as far as it goes.
Value* memory_root(const Model& model, Value* value) {
  const auto is_origin = [](const Node* node) {
    return node->kind() == c10::prim::Param || node->kind() == c10::prim::GetAttr || node->inputs().empty();
  };
  while (!is_origin(value->node()) && may_alias_input(model, value->node())) {
    const auto operands = ir::operands(value->node());
    if (operands.empty() || !ir::holds_tensor(operands.front())) break;
    value = operands.front();
  }
  return value;
}

/// Whether anything after `node` reads memory that `value` may share under another name than `mutated`.
bool is_read_later(const Model& model, const Value* value, const Value* mutated, const Node* node) {
  for (const auto& use : value->uses()) {
    if (use.user == node) continue;
    const bool later = !use.user->isBefore(node);
    if (later && value != mutated) return true;
    if (later || !(may_alias_input(model, use.user) || !use.user->blocks().empty())) continue;
    for (const Value* output : use.user->outputs()) {
      if (output != mutated && is_read_later(model, output, mutated, node)) return true;
    }
  }
  return false;
}

bool make_operators_out_of_place(Model& model) {
  return change_nodes(model, [&](Node* node) {
    if (!computes_in_place(node)) return false;
    Value* mutated = node->input(0);
    const Value* root = memory_root(model, mutated);
    const bool is_state = root->node()->kind() == c10::prim::GetAttr;
    const bool in_one_block = root->node()->owningBlock() == node->owningBlock() &&
                              mutated->node()->owningBlock() == node->owningBlock();
    if (is_state || !in_one_block || is_read_later(model, root, mutated, node)) return false;
    std::string out_of_place = node->kind().toQualString();
    out_of_place.pop_back();
    Value* made =
        ir::Rewriter(model, node).op(out_of_place.c_str(), node->inputs().vec(), node->output()->type());
    mutated->replaceAllUsesAfterNodeWith(node, made);
    replace_node(node, made);
    return true;
  });
}

/// TorchScript computes `a - x` for a number a as `-x + a`; to FX it is one subtraction.
bool restore_subtractions(Model& model) {
  bool changed = false;
  for (Node* node : ir::nodes_in_order(*model.graph)) {
    if (node->kind() != c10::aten::add || node->input(0)->node()->kind() != c10::aten::neg) continue;
    const std::vector<Symbol> spellings = ir::targets(model, node);
    if (spellings.size() != 1 || spellings.front().name != "operator.sub") continue;
    std::vector<Value*> inputs = node->inputs().vec();
    inputs.front() = node->input(0)->node()->input(0);
    // The source range tells of TorchScript's two operators: it stays with them.
    Value* made = ir::insert_before(node, "aten::rsub", inputs, node->output()->type());
    ir::take_scope(made->node(), node);
    replace_node(node, made);
    changed = true;
  }
  return ir::eliminate_dead_code(*model.graph) || changed;
}

/// `x[:, :4]` is one operator to FX; TorchScript takes all along the first dimension before it.
bool join_index_expressions(Model& model) {
  const auto goes_on = [](const torch::jit::Use& use) {
    return use.offset == 0 && (use.user->kind() == c10::aten::slice || use.user->kind() == c10::aten::select);
  };
  const auto is_begun = [&](const Node* node) {
    return operators::takes_all(node) && node->hasUses() &&
           std::ranges::all_of(node->output()->uses(), goes_on);
  };
  return change_nodes(model, is_begun, bypass);
}

/// `output_size`, which nothing passes, is not part of the operator. A transposed convolution that gets one
/// stays as it is.
bool drop_absent_output_size(Model& model) {
  return change_nodes(model, [&](Node* node) {
    if (!ir::is_module_call(node) || !operators::is_transposed(ir::call_of(model, node).type) ||
        node->inputs().size() != 2)
      return false;
    if (node->input(1)->mustBeNone()) {
      node->removeInput(1);
    } else {
      ir::call_of(model, node).weighted.reset();
    }
    return true;
  });
}

bool take_parameters_out_of_modules(Model& model) {
  return change_each(model.calls, [](ir::ModuleCall& call) {
    const bool holds_them = call.module && !ir::is_opaque(call) && operators::is_weighted(call.type);
    if (holds_them) call.weighted = operators::weighted_parameters(call.type, *call.module);
    return holds_them;
  });
}

}  // namespace

bool normalise(Model& model, const PassContext& /*context*/) {
  constexpr std::array kSteps{take_parameters_out_of_modules, drop_absent_output_size,
                              make_operators_out_of_place, restore_subtractions, join_index_expressions};
  return change_each(kSteps, [&](auto* step) { return step(model); });
}

}  // namespace tsq::passes
