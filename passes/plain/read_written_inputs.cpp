// Who reads what a module has written into its input reads the result.

#include <algorithm>

#include "ir/analysis.h"
#include "operators/arguments.h"
#include "passes/context/nodes.h"
#include "passes/plain/passes.h"

namespace tsq::passes {
namespace {

/// Whether a traced module's forward writes into its argument: its operator says so, not an attribute.
bool writes_argument(const torch::jit::Module& module) {
  const auto method = module.find_method("forward");
  if (!method || method->graph()->inputs().size() < 2) return false;
  const Value* argument = method->graph()->inputs()[1];
  return std::ranges::any_of(argument->uses(), [&](const torch::jit::Use& use) {
    const std::string_view kind = use.user->kind().toQualString();
    return use.offset == 0 && use.user->kind().is_aten() && kind.ends_with('_') && !kind.ends_with("__");
  });
}

bool is_in_place(const Model& model, const Node* node) {
  if (const auto in_place = operators::argument_constant(model, node, "inplace"))
    return in_place->isBool() && in_place->toBool();
  if (!ir::is_module_call(node)) return false;
  const auto& module = ir::call_of(model, node).module;
  return module && writes_argument(*module);
}

/// What a node writes its result into; null where there is no such value.
Value* written_input(const Model& model, const Node* node) {
  const bool is_call = ir::is_module_call(node) || node->kind() == c10::prim::CallFunction;
  if (!is_call || node->outputs().size() != 1 || !ir::holds_tensor(node->output())) return nullptr;
  const auto operands = ir::operands(node);
  if (operands.empty() || !ir::holds_tensor(operands.front())) return nullptr;
  return is_in_place(model, node) ? operands.front() : nullptr;
}

}  // namespace

bool read_written_inputs(Model& model, const PassContext& /*context*/) {
  return change_nodes(model, [&](Node* node) {
    Value* input = written_input(model, node);
    // In a branch or loop, what is read after it depends on the way there.
    if (input == nullptr || input->node()->owningBlock() != node->owningBlock()) return false;
    const std::size_t readers = input->uses().size();
    input->replaceAllUsesAfterNodeWith(node, node->output());
    return input->uses().size() != readers;
  });
}

}  // namespace tsq::passes
