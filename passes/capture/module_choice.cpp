#include "passes/capture/module_choice.h"

#include <algorithm>
#include <span>
#include <string>
#include <string_view>

#include "ir/analysis.h"
#include "ir/edit.h"
#include "ir/methods.h"
#include "passes/capture/module_calls.h"
#include "passes/capture/module_values.h"
#include "passes/capture/places.h"
#include "passes/context/names.h"

namespace tsq::passes {
namespace {

/// A module that may be the one to call, and the condition under which it is.
struct Choice {
  Value* condition{};
  Module module{};
};

bool is_chosen_by_index(const Value* value) {
  return value->node()->kind() == c10::prim::ModuleContainerIndex;
}

Value* is_equal(ir::Graph& graph, Value* value, const c10::IValue& constant) {
  return ir::insert_before(graph.insertPoint(), "aten::eq", {value, graph.insertConstant(constant)},
                           c10::BoolType::get());
}

std::vector<Choice> choices_by_index(Capturing& state, Node& index) {
  const auto container = module_of(state, index.input(0));
  if (!container) return {};
  Value* key = index.input(1);
  const bool is_number = key->type()->kind() == c10::TypeKind::IntType;
  std::vector<Choice> found;
  for (const auto& child : container->named_children()) {
    const c10::IValue name =
        is_number ? c10::IValue(static_cast<int64_t>(std::stoll(child.name))) : c10::IValue(child.name);
    found.push_back({is_equal(*state.model.graph, key, name), child.value});
  }
  return found;
}

auto position_of(const Module& module, const std::vector<Module>& modules) {
  return std::ranges::find_if(modules,
                              [&](const Module& each) { return each._ivalue() == module._ivalue(); });
}

/// The modules that the branches of an `if` return, each once. False where one of them cannot be told.
bool collect_candidates(Capturing& state, Value* value, std::vector<Module>& found) {
  if (const auto module = module_of(state, value)) {
    if (position_of(*module, found) == found.end()) found.push_back(*module);
    return true;
  }
  if (value->node()->kind() != c10::prim::If) return false;
  return std::ranges::all_of(value->node()->blocks(), [&](ir::Block* branch) {
    return collect_candidates(state, branch->outputs()[value->offset()], found);
  });
}

/// Which of the candidates a value is: a further output of the `if` that returns it.
Value* number_of(Capturing& state, Value* value, const std::vector<Module>& candidates) {
  if (const auto module = module_of(state, value)) {
    return state.model.graph->insertConstant(
        static_cast<int64_t>(position_of(*module, candidates) - candidates.begin()));
  }
  Node* branches = value->node();
  for (ir::Block* branch : branches->blocks()) {
    const torch::jit::WithInsertPoint guard(branch);
    branch->registerOutput(number_of(state, branch->outputs()[value->offset()], candidates));
  }
  return branches->addOutput()->setType(c10::IntType::get());
}

/// Empty where they cannot be told.
std::vector<Choice> choices_of(Capturing& state, Node* call) {
  Value* chosen = call->input(0);
  const torch::jit::WithInsertPoint guard(call);
  if (is_chosen_by_index(chosen)) return choices_by_index(state, *chosen->node());
  std::vector<Module> candidates;
  if (!collect_candidates(state, chosen, candidates)) return {};
  Value* number = number_of(state, chosen, candidates);
  std::vector<Choice> found;
  for (const Module& each : candidates)
    found.push_back({is_equal(*state.model.graph, number, static_cast<int64_t>(found.size())), each});
  return found;
}

/// A value that is a module of the model.
Value* insert_module(Capturing& state, const Module& module) {
  Value* value = state.model.graph->inputs().at(0);
  std::string_view path = state.source.paths.at(module._ivalue().get());
  while (!path.empty()) {
    const std::size_t end = std::min(path.find('.'), path.size());
    value = state.model.graph->insertGetAttr(value, std::string(path.substr(0, end)));
    path.remove_prefix(std::min(end + 1, path.size()));
  }
  return value;
}

Value* insert_call(Capturing& state, Node& call, const Module& module) {
  std::vector<Value*> inputs(call.inputs().begin(), call.inputs().end());
  inputs.front() = insert_module(state, module);
  Node* made = ir::insert_node(state.model.graph->insertPoint(), c10::prim::CallMethod, inputs)
                   ->s_(c10::attr::name, call.s(c10::attr::name));
  ir::set_place(made, places_of(path_of(state.source, module), std::to_string(places_of_call(&call))));
  made->setSourceRange(call.sourceRange());
  return made->output()->setType(call.output()->type());
}

Value* insert_missing(ir::Graph& graph, const c10::TypePtr& type) {
  Value* text = graph.insertConstant("the list or dict has no module of this index");
  Value* none = graph.insertConstant(c10::IValue());
  ir::insert_node(graph.insertPoint(), c10::prim::RaiseException, {text, none}, 0);
  return ir::insert_node(graph.insertPoint(), c10::prim::Uninitialized, {})->output()->setType(type);
}

/// `may_miss`: none of the choices may be the one.
Value* insert_calls(Capturing& state, Node& call, std::span<const Choice> choices, bool may_miss) {
  ir::Graph& graph = *state.model.graph;
  if (choices.empty()) return insert_missing(graph, call.output()->type());
  if (choices.size() == 1 && !may_miss) return insert_call(state, call, choices.front().module);
  Node* branches = ir::insert_node(graph.insertPoint(), c10::prim::If, {choices.front().condition});
  ir::Block* then = branches->addBlock();
  ir::Block* otherwise = branches->addBlock();
  {
    const torch::jit::WithInsertPoint guard(then);
    then->registerOutput(insert_call(state, call, choices.front().module));
  }
  const torch::jit::WithInsertPoint guard(otherwise);
  otherwise->registerOutput(insert_calls(state, call, choices.subspan(1), may_miss));
  return branches->output()->setType(call.output()->type());
}

}  // namespace

Node* call_each_choice(Capturing& state, Node* call) {
  const std::vector<Choice> choices = choices_of(state, call);
  if (choices.empty()) return nullptr;
  Node* before = call->prev();
  const torch::jit::WithInsertPoint guard(call);
  call->output()->replaceAllUsesWith(insert_calls(state, *call, choices, is_chosen_by_index(call->input(0))));
  return before;
}

void keep_chosen_modules(Capturing& state, ir::Graph& graph) {
  const Module& root = state.source.module;
  ir::Attributes& attributes = state.model.attributes;
  forget_module_values(state, graph);
  for (const Node* node : ir::nodes_in_order(graph)) {
    if (node->kind() != c10::prim::GetAttr || node->input(0) != graph.inputs().at(0)) continue;
    const std::string& name = node->s(c10::attr::name);
    if (!root.hasattr(name) || !root.attr(name).isModule() || attributes.hasattr(name)) continue;
    const Module module = root.attr(name).toModule();
    for (const Module& each : module.modules()) state.kept.insert(each._ivalue().get());
    attributes.add({.name = name,
                    .type = root.type()->getAttribute(name),
                    .value = in_its_mode(state.source, module)._ivalue()});
    state.model.state.insert(name);
  }
}

}  // namespace tsq::passes
