#include "ir/graph_module.h"

#include <fmt/format.h>
#include <torch/csrc/jit/runtime/operator.h>

#include <algorithm>
#include <cmath>
#include <unordered_map>
#include <unordered_set>

#include "ir/methods.h"

namespace tsq::ir {
namespace {

const c10::Symbol kCallAttribute = c10::Symbol::attr("tsq_call");
const c10::Symbol kObserverAttribute = c10::Symbol::attr("tsq_observer");
const c10::Symbol kStateAttribute = c10::Symbol::attr("tsq_state");
const c10::Symbol kScopeAttribute = c10::Symbol::attr("tsq_scope");
const c10::Symbol kStaysFloatAttribute = c10::Symbol::attr("tsq_stays_float");

void collect(Block* block, std::vector<Node*>& nodes) {
  for (Node* node : block->nodes()) {
    nodes.push_back(node);
    for (Block* inner : node->blocks()) collect(inner, nodes);
  }
}

bool type_holds_tensor(const c10::TypePtr& type) {
  if (type->kind() == c10::TypeKind::TensorType || type->kind() == c10::TypeKind::AnyType) return true;
  return std::any_of(type->containedTypes().begin(), type->containedTypes().end(), type_holds_tensor);
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
      return true;
    default:
      break;
  }
  if (!node->blocks().empty() || node->kind() == c10::prim::SetAttr) return false;
  const c10::FunctionSchema* schema = node->maybeSchema();
  return schema != nullptr && !schema->is_mutable() && node->kind().is_aten();
}

void eliminate_dead_code(Block* block) {
  for (auto it = block->nodes().rbegin(); it != block->nodes().rend(); ++it) {
    Node* node = *it;
    for (Block* inner : node->blocks()) eliminate_dead_code(inner);
    if (!node->hasUses() && is_pure(node)) it.destroyCurrent();
  }
}

}  // namespace

const c10::Symbol kModuleKind = c10::Symbol::fromQualString("prim::tsq_module");
const c10::Symbol kObserverKind = c10::Symbol::fromQualString("prim::tsq_observer");

Weighted* weighted_of(ModuleCall& call) {
  if (call.weighted) return &*call.weighted;
  return call.members.empty() ? nullptr : weighted_of(call.members.front());
}

const Weighted* weighted_of(const ModuleCall& call) {
  if (call.weighted) return &*call.weighted;
  return call.members.empty() ? nullptr : weighted_of(call.members.front());
}

GraphModule GraphModule::copy() const {
  GraphModule result = *this;
  result.graph = graph->copy();
  for (Method& method : result.methods) {
    if (method.graph) method.graph = method.graph->copy();
  }
  result.attributes = torch::jit::Module("__torch__.tsq.Attributes");
  const auto type = attributes.type();
  for (std::size_t i = 0; i < type->numAttributes(); ++i) {
    const std::string& name = type->getAttributeName(i);
    result.attributes.register_attribute(name, type->getAttribute(i), attributes.attr(name),
                                         type->is_parameter(i), type->is_buffer(i));
  }
  return result;
}

std::vector<Node*> nodes_in_order(Graph& graph) {
  std::vector<Node*> nodes;
  collect(graph.block(), nodes);
  return nodes;
}

bool is_module_call(const Node* node) { return node->kind() == kModuleKind; }
bool is_observer(const Node* node) { return node->kind() == kObserverKind; }

bool is_standalone(const GraphModule& gm, const Node* node) {
  return is_module_call(node) && call_of(gm, node).standalone.has_value();
}

ModuleCall& call_of(GraphModule& gm, const Node* node) {
  return gm.calls.at(static_cast<std::size_t>(node->i(kCallAttribute)));
}
const ModuleCall& call_of(const GraphModule& gm, const Node* node) {
  return gm.calls.at(static_cast<std::size_t>(node->i(kCallAttribute)));
}

std::size_t observer_index(const Node* node) { return static_cast<std::size_t>(node->i(kObserverAttribute)); }
void set_observer_index(Node* node, std::size_t index) {
  node->i_(kObserverAttribute, static_cast<int64_t>(index));
}

std::optional<std::size_t> scope_index(const Node* node) {
  if (!node->hasAttribute(kScopeAttribute)) return std::nullopt;
  return static_cast<std::size_t>(node->i(kScopeAttribute));
}

const Scope& scope_of(const GraphModule& gm, const Node* node) {
  return gm.scopes.at(scope_index(node).value_or(0));
}
void set_scope(Node* node, std::size_t index) { node->i_(kScopeAttribute, static_cast<int64_t>(index)); }
void take_scope(Node* to, const Node* from) {
  if (const auto index = scope_index(from)) set_scope(to, *index);
  take_place(to, from);
}

void set_state(GraphModule& gm, Node* node, NodeState state) {
  node->i_(kStateAttribute, static_cast<int64_t>(gm.states.size()));
  gm.states.push_back(std::move(state));
}

const NodeState* state_of(const GraphModule& gm, const Node* node) {
  if (!node->hasAttribute(kStateAttribute)) return nullptr;
  return &gm.states.at(static_cast<std::size_t>(node->i(kStateAttribute)));
}

bool keeps_reference(const GraphModule& gm, const Node* node) {
  const NodeState* state = state_of(gm, node);
  return state != nullptr && state->keeps_reference;
}

const QConfig* observed_qconfig(const GraphModule& gm, const Node* node) {
  const NodeState* state = state_of(gm, node);
  return state != nullptr && state->observed && state->qconfig ? &*state->qconfig : nullptr;
}

Node* only_reader(const Node* node) {
  if (node->outputs().size() != 1) return nullptr;
  const auto& uses = node->output()->uses();
  return uses.size() == 1 ? uses.front().user : nullptr;
}

bool is_container_construct(const Node* node) {
  if (node->kind() == c10::prim::TupleConstruct) return true;
  if (node->kind() != c10::prim::ListConstruct) return false;
  const auto uses = node->output()->uses();
  return std::none_of(uses.begin(), uses.end(), [](const torch::jit::Use& use) {
    const c10::FunctionSchema* schema = use.user->kind().is_aten() ? use.user->maybeSchema() : nullptr;
    return schema != nullptr && schema->is_mutable();
  });
}

bool is_no_value(const Value* value) { return value->node()->kind() == c10::prim::Uninitialized; }

void set_stays_float(Node* node) { node->i_(kStaysFloatAttribute, 1); }
bool stays_float(const Node* node) { return node->hasAttribute(kStaysFloatAttribute); }

Node* create_module_call(GraphModule& gm, ModuleCall call, c10::ArrayRef<Value*> inputs, std::size_t scope) {
  Node* node = gm.graph->create(kModuleKind, inputs, 1);
  node->i_(kCallAttribute, static_cast<int64_t>(gm.calls.size()));
  set_scope(node, scope);
  gm.calls.push_back(std::move(call));
  return node;
}

namespace {

/// Observers of the results of one node stand in the order of the results, as in FX, where each result is a
/// node: a moving average depends on the order of what an observer that several values share sees.
Node* first_after_earlier_results(const Value* input, Node* node) {
  while (is_observer(node) && node->input(0)->node() == input->node() &&
         node->input(0)->offset() < input->offset())
    node = node->next();
  return node;
}

}  // namespace

Node* insert_observer(GraphModule& gm, Value* input, std::size_t observer) {
  Node* node = gm.graph->create(kObserverKind, {input}, 1);
  set_observer_index(node, observer);
  take_scope(node, input->node());
  node->output()->setType(input->type());
  const bool is_input = input->node()->kind() == c10::prim::Param;
  Node* first = is_input ? *input->node()->owningBlock()->nodes().begin() : input->node()->next();
  node->insertBefore(first_after_earlier_results(input, first));
  return node;
}

bool holds_tensor(const Value* value) { return type_holds_tensor(value->type()); }
bool is_constant(const Value* value) { return value->node()->kind() == c10::prim::Constant; }

std::vector<Argument> arguments(const Node* node) {
  std::vector<Argument> result;
  const bool skips_first = node->kind() == c10::prim::CallMethod || node->kind() == c10::prim::CallFunction;
  for (std::size_t i = skips_first ? 1 : 0; i < node->inputs().size(); ++i) {
    Value* input = const_cast<Node*>(node)->input(i);
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

void replace_operand(Node* node, Value* from, Value* to) {
  for (std::size_t i = 0; i < node->inputs().size(); ++i) {
    Value* input = node->inputs()[i];
    if (input == from) {
      node->replaceInput(i, to);
    } else if (is_container_construct(input->node())) {
      const auto elements = input->node()->inputs();
      if (std::find(elements.begin(), elements.end(), from) == elements.end()) continue;
      // A list may serve several readers, and the new value may be made after it: this reader gets a list of
      // its own.
      Node* own = node->owningGraph()->createClone(input->node(), [](Value* v) { return v; });
      own->insertBefore(node);
      for (std::size_t k = 0; k < own->inputs().size(); ++k) {
        if (own->inputs()[k] == from) own->replaceInput(k, to);
      }
      node->replaceInput(i, own->output());
      if (!input->node()->hasUses()) input->node()->destroy();
    }
  }
}

std::vector<Node*> users(const Value* value) {
  std::vector<Node*> result;
  for (const auto& use : value->uses()) {
    if (is_container_construct(use.user)) {
      for (Node* inner : users(use.user->output())) result.push_back(inner);
    } else {
      result.push_back(use.user);
    }
  }
  std::vector<Node*> unique;
  for (Node* node : result) {
    if (std::find(unique.begin(), unique.end(), node) == unique.end()) unique.push_back(node);
  }
  return unique;
}

std::string unique_attribute_name(const GraphModule& gm, std::string_view path) {
  std::string base(path);
  for (char& c : base) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  }
  if (base.empty() || std::isdigit(static_cast<unsigned char>(base.front())) != 0)
    base = fmt::format("_{}", base);
  std::string name = base;
  const auto is_taken = [&] { return gm.attributes.hasattr(name) || gm.taken_names.contains(name); };
  for (int i = 1; is_taken(); ++i) name = base + "_" + std::to_string(i);
  return name;
}

Value* insert_attribute(GraphModule& gm, const std::string& name, const c10::IValue& value,
                        const c10::TypePtr& type) {
  const std::string unique = unique_attribute_name(gm, name);
  gm.attributes.register_attribute(unique, type, value);
  Node* node = gm.graph->create(c10::prim::GetAttr, {gm.graph->inputs().at(0)}, 1);
  node->s_(c10::attr::name, unique);
  node->output()->setType(type);
  gm.graph->insertNode(node);
  return node->output();
}

Value* insert_double(GraphModule& gm, const std::string& name, double value) {
  constexpr double kLosesItsPoint = 1e10;
  if (std::abs(value) < kLosesItsPoint) return gm.graph->insertConstant(value);
  return insert_attribute(gm, name, value, c10::FloatType::get());
}

namespace {

/// The node whose memory an operator's result is, views and detached tensors looked through.
const Node* memory_behind(const Value* value) {
  for (const Node* node = value->node();; node = node->input(0)->node()) {
    const c10::FunctionSchema* schema = node->kind().is_aten() ? node->maybeSchema() : nullptr;
    if (schema == nullptr || schema->returns().size() != 1 || node->inputs().empty()) return node;
    const auto* result = schema->returns().front().alias_info();
    const auto* argument = schema->arguments().front().alias_info();
    if (result == nullptr || argument == nullptr) return node;
  }
}

}  // namespace

std::unordered_set<std::string> written_attributes(const GraphModule& gm) {
  std::unordered_set<std::string> names;
  for (const Node* node : nodes_in_order(*gm.graph)) {
    if (node->kind() == c10::prim::SetAttr) names.insert(node->s(c10::attr::name));
    const c10::FunctionSchema* schema = node->maybeSchema();
    if (schema == nullptr || !schema->is_mutable()) continue;
    for (std::size_t i = 0; i < schema->arguments().size() && i < node->inputs().size(); ++i) {
      const auto* alias = schema->arguments()[i].alias_info();
      if (alias == nullptr || !alias->isWrite()) continue;
      const Node* source = memory_behind(node->input(i));
      if (source->kind() == c10::prim::GetAttr) names.insert(source->s(c10::attr::name));
    }
  }
  return names;
}

void eliminate_dead_code(Graph& graph) { eliminate_dead_code(graph.block()); }

}  // namespace tsq::ir
