// What reads the result of a condition on the mode moves into both branches, where the table joins it with
// what is in front of it. FX's trace of a model in training mode has no condition there, and observes the two
// as one.
//   relu(y * 1.5 if self.training else y)   →   relu(y * 1.5) if self.training else relu(y)

#include <algorithm>

#include "ir/analysis.h"
#include "ir/edit.h"
#include "passes/context/nodes.h"
#include "passes/rewrite/passes.h"

namespace tsq::passes {
namespace {

bool chooses_by_mode(const Model& model, const Node* node) {
  if (node->kind() != c10::prim::If || node->outputs().size() != 1) return false;
  const Node* condition = node->input(0)->node();
  if (condition->kind() == c10::aten::__not__) condition = condition->input(0)->node();
  if (condition->kind() != c10::prim::GetAttr) return false;
  const auto slot = model.slots.find(condition->s(c10::attr::name));
  return slot != model.slots.end() && slot->second.name == "training";
}

/// Whether a node is the last operator of a pattern of several.
bool joins(const Model& model, const BackendConfig& table, const Node* node) {
  const auto targets = ir::targets(model, node);
  return std::ranges::any_of(table.configs(), [&](const BackendPatternConfig& row) {
    const Pattern& pattern = row.key();
    return !pattern.args.empty() && std::ranges::find(targets, pattern.symbol) != targets.end();
  });
}

/// The operator of one value that alone reads what a condition returns; null where there is none.
Node* joined_reader(const Model& model, const BackendConfig& table, const Node* choice) {
  Node* reader = ir::only_reader(choice);
  if (reader == nullptr || reader->owningBlock() != choice->owningBlock() || reader->outputs().size() != 1)
    return nullptr;
  const auto inputs = reader->inputs();
  const bool reads_it_alone =
      !inputs.empty() && inputs[0] == choice->output() &&
      std::all_of(inputs.begin() + 1, inputs.end(), [](const Value* each) { return ir::is_constant(each); });
  return reads_it_alone && joins(model, table, reader) ? reader : nullptr;
}

/// The reader at the end of a branch.
Value* at_end_of(Model& model, torch::jit::Block* branch, Node* reader) {
  Value* returned = branch->outputs().at(0);
  if (!ir::is_module_call(reader)) {
    Node* copy = ir::insert_copy(branch->return_node(), reader);
    copy->replaceInput(0, returned);
    return copy->output();
  }
  std::vector<Value*> inputs = reader->inputs().vec();
  inputs.front() = returned;
  return ir::Rewriter(model, branch->return_node(), reader).call(ir::call_of(model, reader), inputs);
}

}  // namespace

bool join_mode_branches(Model& model, const PassContext& context) {
  return change_nodes(model, [&](Node* node) {
    if (!chooses_by_mode(model, node)) return false;
    Node* reader = joined_reader(model, context.table, node);
    if (reader == nullptr) return false;
    for (torch::jit::Block* branch : node->blocks()) {
      Value* value = at_end_of(model, branch, reader);
      branch->eraseOutput(0);
      branch->registerOutput(value);
    }
    node->output()->setType(reader->output()->type());
    replace_node(reader, node->output());
    return true;
  });
}

}  // namespace tsq::passes
