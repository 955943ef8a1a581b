#include "ir/analysis.h"

#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/runtime/operator.h>

#include <algorithm>
#include <array>

#include "ir/methods.h"

namespace tsq::ir {
namespace {

bool type_holds_tensor(const c10::TypePtr& type) {
  if (type->kind() == c10::TypeKind::TensorType || type->kind() == c10::TypeKind::AnyType) return true;
  return std::any_of(type->containedTypes().begin(), type->containedTypes().end(), type_holds_tensor);
}

/// Whether it is a norm that updates statistics, unless its flag of training is constantly false.
bool updates_statistics(const Node* node) {
  const UpdatedStatistics updated = updated_statistics(node);
  return !updated.inputs.empty() &&
         (updated.trains == nullptr || torch::jit::constant_as<bool>(updated.trains).value_or(true));
}

bool is_pure(const Node* node) {
  if (is_module_call(node) || is_observer(node)) return true;
  switch (node->kind()) {
    case c10::prim::Constant:
    case c10::prim::GetAttr:
    case c10::prim::ListConstruct:
    case c10::prim::TupleConstruct:
    case c10::prim::DictConstruct:
    case c10::prim::ListUnpack:
    case c10::prim::TupleUnpack:
    case c10::prim::TupleIndex:
    case c10::prim::NumToTensor:
    case c10::prim::max:
    case c10::prim::min:
      return true;
    default:
      break;
  }
  if (!node->blocks().empty() || node->kind() == c10::prim::SetAttr || updates_statistics(node)) return false;
  const c10::FunctionSchema* schema = node->maybeSchema();
  return schema != nullptr && !schema->is_mutable() && node->kind().is_aten();
}

bool eliminate_dead_code(Block* block) {
  bool changed = false;
  for (auto it = block->nodes().rbegin(); it != block->nodes().rend(); ++it) {
    Node* node = *it;
    for (Block* inner : node->blocks()) changed |= eliminate_dead_code(inner);
    if (node->hasUses() || !is_pure(node)) continue;
    it.destroyCurrent();
    changed = true;
  }
  return changed;
}

}  // namespace

std::vector<Node*> nodes_in_order(Graph& graph) {
  std::vector<Node*> nodes;
  for (Node* node : graph.nodes()) collect_nodes(node, nodes);
  return nodes;
}

Node* only_reader(const Node* node) {
  if (node->outputs().size() != 1) return nullptr;
  const auto& uses = node->output()->uses();
  return uses.size() == 1 ? uses.front().user : nullptr;
}

bool is_container_construct(const Node* node) {
  if (node->kind() == c10::prim::TupleConstruct) return true;
  if (node->kind() != c10::prim::ListConstruct) return false;
  return std::ranges::none_of(node->output()->uses(), [](const torch::jit::Use& use) {
    const c10::FunctionSchema* schema = use.user->kind().is_aten() ? use.user->maybeSchema() : nullptr;
    return schema != nullptr && schema->is_mutable();
  });
}

bool is_no_value(const Value* value) { return value->node()->kind() == c10::prim::Uninitialized; }

bool holds_tensor(const Value* value) { return type_holds_tensor(value->type()); }
bool is_constant(const Value* value) { return value->node()->kind() == c10::prim::Constant; }

std::vector<Argument> arguments(const Node* node) {
  std::vector<Argument> result;
  const bool skips_first = node->kind() == c10::prim::CallMethod || node->kind() == c10::prim::CallFunction;
  for (Value* input : const_cast<Node*>(node)->inputs().slice(skips_first ? 1 : 0)) {
    Argument argument{.value = input};
    if (is_container_construct(input->node())) {
      argument.is_list = true;
      argument.elements.assign(input->node()->inputs().begin(), input->node()->inputs().end());
    }
    result.push_back(std::move(argument));
  }
  return result;
}

std::vector<Value*> operands(const Node* node) {
  std::vector<Value*> result;
  for (const Argument& argument : arguments(node)) {
    if (argument.is_list) {
      result.insert(result.end(), argument.elements.begin(), argument.elements.end());
    } else {
      result.push_back(argument.value);
    }
  }
  return result;
}

std::vector<Node*> users(const Value* value) {
  std::vector<Node*> unique;
  std::unordered_set<const Node*> seen;
  const auto visit = [&](const auto& self, const Value* used) -> void {
    for (const auto& use : used->uses()) {
      if (is_container_construct(use.user)) {
        self(self, use.user->output());
      } else if (seen.insert(use.user).second) {
        unique.push_back(use.user);
      }
    }
  };
  visit(visit, value);
  return unique;
}

namespace {

/// The node whose memory an operator's result is, views and detached tensors looked through.
const Node* memory_after(const Value* value) {
  for (const Node* node = value->node();; node = node->input(0)->node()) {
    const c10::FunctionSchema* schema = node->kind().is_aten() ? node->maybeSchema() : nullptr;
    if (schema == nullptr || schema->returns().size() != 1 || node->inputs().empty()) return node;
    const auto* result = schema->returns().front().alias_info();
    const auto* argument = schema->arguments().front().alias_info();
    if (result == nullptr || argument == nullptr) return node;
  }
}

bool is_norm_with_statistics(const Node* node) {
  constexpr std::array kKinds{c10::aten::batch_norm,        c10::aten::instance_norm,
                              c10::aten::native_batch_norm, c10::aten::_batch_norm_impl_index,
                              c10::aten::cudnn_batch_norm,  c10::aten::miopen_batch_norm};
  if (node->kind() != c10::prim::CallFunction) return std::ranges::find(kKinds, node->kind()) != kKinds.end();
  const std::string name = functional_name(node);
  return name == "batch_norm" || name == "instance_norm";
}

/// The schema of an operator, or of the function that a node calls; null where there is none.
const c10::FunctionSchema* called_schema(const Node* node) {
  if (node->kind() != c10::prim::CallFunction) return node->maybeSchema();
  const auto type = node->input(0)->type()->cast<c10::FunctionType>();
  return type == nullptr ? nullptr : &type->function()->getSchema();
}

void collect_written_attributes(Graph& graph, std::unordered_set<std::string>& names) {
  for (const Node* node : nodes_in_order(graph)) {
    if (node->kind() == c10::prim::SetAttr) names.insert(node->s(c10::attr::name));
    for (std::size_t i = 0; i < node->inputs().size(); ++i) {
      if (!writes_input(node, i)) continue;
      const Node* source = memory_after(node->input(i));
      if (source->kind() == c10::prim::GetAttr) names.insert(source->s(c10::attr::name));
    }
  }
}

}  // namespace

UpdatedStatistics updated_statistics(const Node* node) {
  const c10::FunctionSchema* schema = is_norm_with_statistics(node) ? called_schema(node) : nullptr;
  if (schema == nullptr) return {};
  UpdatedStatistics found;
  const std::size_t first = node->kind() == c10::prim::CallFunction ? 1 : 0;
  for (std::size_t i = first; i < node->inputs().size() && i - first < schema->arguments().size(); ++i) {
    const std::string& name = schema->arguments()[i - first].name();
    const bool is_statistic = name == "running_mean" || name == "running_var";
    if (is_statistic && !node->input(i)->mustBeNone()) found.inputs.push_back(i);
    if (name == "training" || name == "use_input_stats") found.trains = node->input(i);
  }
  return found;
}

bool writes_input(const Node* node, std::size_t index) {
  const c10::FunctionSchema* schema = node->maybeSchema();
  const auto* alias = schema != nullptr && index < schema->arguments().size()
                          ? schema->arguments()[index].alias_info()
                          : nullptr;
  if (alias != nullptr && alias->isWrite()) return true;
  const UpdatedStatistics updated = updated_statistics(node);
  return std::ranges::find(updated.inputs, index) != updated.inputs.end() && updates_statistics(node);
}

std::unordered_set<std::string> written_attributes(const Model& model) {
  std::unordered_set<std::string> names;
  collect_written_attributes(*model.graph, names);
  for (const Method& method : model.methods) {
    if (method.graph) collect_written_attributes(*method.graph, names);
  }
  return names;
}

bool eliminate_dead_code(Graph& graph) { return eliminate_dead_code(graph.block()); }

}  // namespace tsq::ir
