#include "ir/edit.h"

#include <fmt/format.h>
#include <torch/csrc/jit/ir/constants.h>

#include <algorithm>
#include <cmath>

#include "ir/analysis.h"

namespace tsq::ir {

Node* create_module_call(Model& gm, ModuleCall call, c10::ArrayRef<Value*> inputs, std::size_t scope) {
  Node* node = gm.graph->create(kModuleKind, inputs, 1);
  set_call(node, gm.calls.size());
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

Node* insert_observer(Model& gm, Value* input, std::size_t observer) {
  Node* node = gm.graph->create(kObserverKind, {input}, 1);
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

std::string unique_attribute_name(Model& gm, std::string_view path) {
  std::string base(path);
  for (char& c : base) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  }
  if (base.empty() || std::isdigit(static_cast<unsigned char>(base.front())) != 0)
    base = fmt::format("_{}", base);
  const auto numbered = [&](int number) { return number == 0 ? base : fmt::format("{}_{}", base, number); };
  const auto is_taken = [&](const std::string& name) {
    return gm.attributes.hasattr(name) || gm.taken_names.contains(name);
  };
  int& number = gm.first_free_numbers[base];
  while (is_taken(numbered(number))) ++number;
  return numbered(number);
}

Value* insert_attribute(Model& gm, const std::string& name, const c10::IValue& value,
                        const c10::TypePtr& type) {
  const std::string unique = unique_attribute_name(gm, name);
  gm.attributes.register_attribute(unique, type, value);
  Node* node = gm.graph->create(c10::prim::GetAttr, {gm.graph->inputs().at(0)}, 1);
  node->s_(c10::attr::name, unique);
  node->output()->setType(type);
  gm.graph->insertNode(node);
  return node->output();
}

Value* insert_double(Model& gm, const std::string& name, double value) {
  constexpr double kLosesItsPoint = 1e10;
  if (std::abs(value) < kLosesItsPoint) return gm.graph->insertConstant(value);
  return insert_attribute(gm, name, value, c10::FloatType::get());
}

Value* constant_before(Model& gm, Node* before, const c10::IValue& value) {
  const torch::jit::WithInsertPoint guard(before);
  return gm.graph->insertConstant(value);
}

Value* attribute_before(Model& gm, Node* before, const std::string& name, const at::Tensor& value) {
  const torch::jit::WithInsertPoint guard(before);
  return insert_attribute(gm, name, value, c10::TensorType::get());
}

Value* insert_before(Model& gm, Node* before, const char* kind, const std::vector<Value*>& inputs) {
  Node* node = gm.graph->create(c10::Symbol::fromQualString(kind), inputs, 1);
  node->insertBefore(before);
  return node->output();
}

Rewriter::Rewriter(Model& model, Node* at) : model_(model), at_(at) {}

Node* Rewriter::insert(Node* node) const {
  node->setSourceRange(at_->sourceRange());
  take_scope(node, at_);
  node->insertBefore(at_);
  return node;
}

Value* Rewriter::constant(const c10::IValue& value) const { return constant_before(model_, at_, value); }

Value* Rewriter::attribute(const std::string& name, const at::Tensor& value) const {
  return attribute_before(model_, at_, name, value);
}

Value* Rewriter::op(const char* kind, const std::vector<Value*>& inputs) const {
  return insert(model_.graph->create(c10::Symbol::fromQualString(kind), inputs, 1))->output();
}

Value* Rewriter::call(ModuleCall call, const std::vector<Value*>& inputs) const {
  return insert(create_module_call(model_, std::move(call), inputs, scope_index(at_).value_or(0)))->output();
}

void Rewriter::replace(Node* node, Value* by) {
  take_record(by->node(), node);
  if (node->output()->hasDebugName() && by->node()->kind() != c10::prim::Param) {
    const std::string name = node->output()->debugName();
    by->setDebugName(name);
  }
  node->output()->replaceAllUsesWith(by);
  node->destroy();
}

void take_branch(Node* branches, bool condition) {
  Block* block = branches->blocks()[condition ? 0 : 1];
  const std::vector<Value*> results(block->outputs().begin(), block->outputs().end());
  const std::vector<Node*> nodes(block->nodes().begin(), block->nodes().end());
  for (Node* node : nodes) node->moveBefore(branches);
  for (std::size_t i = 0; i < results.size(); ++i) branches->output(i)->replaceAllUsesWith(results[i]);
  branches->destroy();
}

Node* reshape_for_view(Model& gm, Node* view) {
  Node* made = gm.graph->create(c10::aten::reshape, view->inputs(), 1);
  made->insertBefore(view);
  made->output()->copyMetadata(view->output());
  take_scope(made, view);
  take_record(made, view);
  view->output()->replaceAllUsesWith(made->output());
  view->destroy();
  return made;
}

}  // namespace tsq::ir
