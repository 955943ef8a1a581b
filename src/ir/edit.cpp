#include "ir/edit.h"

#include <fmt/format.h>
#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/passes/constant_pooling.h>
#include <torch/csrc/jit/passes/constant_propagation.h>
#include <torch/csrc/jit/passes/inliner.h>
#include <torch/csrc/jit/passes/peephole.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/attribute_name.h"
#include "ir/analysis.h"
#include "ir/live_nodes.h"
#include "ir/value_numbers.h"

namespace tsq::ir {

Node* create_module_call(Model& model, ModuleCall call, c10::ArrayRef<Value*> inputs, std::size_t scope) {
  Node* node = model.graph->create(kModuleKind, inputs, 1);
  set_call(node, model.calls.size());
  set_scope(node, scope);
  model.calls.push_back(std::move(call));
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

Node* insert_observer(Model& model, Value* input, std::size_t observer) {
  Node* node = model.graph->create(kObserverKind, {input}, 1);
  set_observer_index(node, observer);
  take_scope(node, input->node());
  node->output()->setType(input->type());
  const bool is_input = input->node()->kind() == c10::prim::Param;
  Node* first = is_input ? *input->node()->owningBlock()->nodes().begin() : input->node()->next();
  node->insertBefore(first_after_earlier_results(input, first));
  return node;
}

void replace_operand(Node* node, Value* from, Value* to) {
  for (std::size_t i = 0; i < node->inputs().size(); ++i) {
    Value* input = node->inputs()[i];
    if (input == from) {
      node->replaceInput(i, to);
    } else if (is_container_construct(input->node())) {
      if (std::ranges::count(input->node()->inputs(), from) == 0) continue;
      // A list may serve several readers, and the new value may be made after it: this reader gets a list of
      // its own.
      Node* own = insert_copy(node, input->node());
      own->replaceInputWith(from, to);
      node->replaceInput(i, own->output());
      if (!input->node()->hasUses()) input->node()->destroy();
    }
  }
}

std::string unique_attribute_name(Model& model, std::string_view path) {
  const std::string base = path.empty() ? "_" : attribute_name(std::string(path));
  const auto numbered = [&](int number) { return number == 0 ? base : fmt::format("{}_{}", base, number); };
  const auto is_taken = [&](const std::string& name) {
    return model.attributes.hasattr(name) || model.taken_names.contains(name);
  };
  int& number = model.first_free_numbers[base];
  while (is_taken(numbered(number))) ++number;
  return numbered(number);
}

Value* insert_attribute(Model& model, const std::string& name, const c10::IValue& value,
                        const c10::TypePtr& type) {
  const std::string unique = unique_attribute_name(model, name);
  model.attributes.add({.name = unique, .type = type, .value = value});
  return read_attribute(model.graph->insertPoint(), model.graph->inputs().at(0), unique, type);
}

Value* insert_double(Model& model, const std::string& name, double value) {
  constexpr double kLosesItsPoint = 1e10;
  if (std::abs(value) < kLosesItsPoint) return model.graph->insertConstant(value);
  return insert_attribute(model, name, value, c10::FloatType::get());
}

Value* constant_before(Node* before, const c10::IValue& value) {
  const torch::jit::WithInsertPoint guard(before);
  return before->owningGraph()->insertConstant(value);
}

Value* attribute_before(Model& model, Node* before, const std::string& name, const at::Tensor& value) {
  const torch::jit::WithInsertPoint guard(before);
  return insert_attribute(model, name, value, c10::TensorType::get());
}

Node* insert_node(Node* before, c10::Symbol kind, c10::ArrayRef<Value*> inputs, std::size_t outputs) {
  return before->owningGraph()->create(kind, inputs, outputs)->insertBefore(before);
}

Value* insert_before(Node* before, const char* kind, const std::vector<Value*>& inputs,
                     const c10::TypePtr& type) {
  Value* made = insert_node(before, c10::Symbol::fromQualString(kind), inputs)->output();
  return type ? made->setType(type) : made;
}

Node* insert_copy(Node* before, Node* node) {
  return before->owningGraph()->createClone(node, [](Value* value) { return value; })->insertBefore(before);
}

Value* list_before(Node* before, const c10::TypePtr& element, c10::ArrayRef<Value*> elements) {
  return before->owningGraph()->createList(element, elements)->insertBefore(before)->output();
}

Value* tuple_before(Node* before, c10::ArrayRef<Value*> elements, c10::TupleTypePtr type) {
  return before->owningGraph()->createTuple(elements, std::move(type))->insertBefore(before)->output();
}

Node* unpack_before(Node* before, Value* tuple) {
  return before->owningGraph()->createTupleUnpack(tuple)->insertBefore(before);
}

Value* read_attribute(Node* before, Value* object, const std::string& name, const c10::TypePtr& type) {
  Node* node = insert_node(before, c10::prim::GetAttr, {object});
  node->s_(c10::attr::name, name);
  return node->output()->setType(type);
}

Rewriter::Rewriter(Model& model, Node* before, const Node* from)
    : model_(model), before_(before), from_(from) {}

Node* Rewriter::placed(Node* made) const {
  made->setSourceRange(from_->sourceRange());
  take_scope(made, from_);
  return made;
}

Value* Rewriter::constant(const c10::IValue& value) const { return constant_before(before_, value); }

Value* Rewriter::attribute(const std::string& name, const at::Tensor& value) const {
  return attribute_before(model_, before_, name, value);
}

Node* Rewriter::node(c10::Symbol kind, c10::ArrayRef<Value*> inputs, std::size_t outputs) const {
  return placed(insert_node(before_, kind, inputs, outputs));
}

Value* Rewriter::op(const char* kind, const std::vector<Value*>& inputs, const c10::TypePtr& type) const {
  return placed(insert_before(before_, kind, inputs, type)->node())->output();
}

Value* Rewriter::call(ModuleCall call, const std::vector<Value*>& inputs) const {
  Node* made = create_module_call(model_, std::move(call), inputs, scope_index(from_).value_or(0));
  return placed(made->insertBefore(before_))->output();
}

void Rewriter::replace(Node* node, Value* by) {
  take_record(by->node(), node);
  take_number(by, node->output());
  // A copy: the name is taken away from the other value.
  if (node->output()->hasDebugName() && by->node()->kind() != c10::prim::Param)
    by->setDebugName(std::string(node->output()->debugName()));
  node->output()->replaceAllUsesWith(by);
  node->destroy();
}

namespace {

/// Bodies of functions without calls, each made once.
using Bodies = std::map<torch::jit::GraphFunction*, std::shared_ptr<Graph>>;

void inline_calls(Graph& graph, Bodies& bodies);

Graph& body_of(torch::jit::GraphFunction* function, Bodies& bodies) {
  std::shared_ptr<Graph>& body = bodies[function];
  if (body) return *body;
  body = function->graph()->copy();
  inline_calls(*body, bodies);
  torch::jit::PeepholeOptimize(body, /*disable_shape_peephole=*/true);
  torch::jit::ConstantPropagationImmutableTypes(body);
  torch::jit::ConstantPooling(body);
  return *body;
}

void inline_calls(Graph& graph, Bodies& bodies) {
  for (Node* node : LiveNodes(graph)) {
    torch::jit::GraphFunction* function = torch::jit::tryToGraphFunction(node);
    if (function == nullptr) continue;
    Graph& body = body_of(function, bodies);
    if (node->kind() == c10::prim::CallFunction) node->removeInput(0);
    torch::jit::inlineCallTo(node, function, &body);
  }
}

}  // namespace

void inline_calls(Graph& graph) {
  Bodies bodies;
  inline_calls(graph, bodies);
}

void take_branch(Node* branches, bool condition) {
  Block* block = branches->blocks()[condition ? 0 : 1];
  const std::vector<Value*> results(block->outputs().begin(), block->outputs().end());
  const std::vector<Node*> nodes(block->nodes().begin(), block->nodes().end());
  for (Node* node : nodes) node->moveBefore(branches);
  for (std::size_t i = 0; i < results.size(); ++i) branches->output(i)->replaceAllUsesWith(results[i]);
  branches->destroy();
}

Node* reshape_for_view(Model& model, Node* view) {
  Node* made = model.graph->create(c10::aten::reshape, view->inputs(), 1);
  made->insertBefore(view);
  made->output()->copyMetadata(view->output());
  take_scope(made, view);
  take_record(made, view);
  take_number(made->output(), view->output());
  view->output()->replaceAllUsesWith(made->output());
  view->destroy();
  return made;
}

Model without_observers(const Model& observed) {
  Model model = observed.copy();
  for (Node* node : nodes_in_order(*model.graph)) {
    if (!is_observer(node)) continue;
    node->output()->replaceAllUsesWith(node->input(0));
    node->destroy();
  }
  return model;
}

}  // namespace tsq::ir
