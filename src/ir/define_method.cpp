#include "ir/define_method.h"

#include <torch/csrc/jit/api/compilation_unit.h>
#include <torch/csrc/jit/api/function_impl.h>

#include <ranges>
#include <string_view>
#include <vector>

#include "ir/analysis.h"
#include "ir/edit.h"
#include "ir/methods.h"
#include "ir/value_numbers.h"

namespace tsq::ir {
namespace {

/// Of the module that is made, which has a forward by now.
void call_forward(Graph& body) {
  for (Node* node : nodes_in_order(body)) {
    if (!is_forward_call(node)) continue;
    Node* call = insert_node(node, c10::prim::CallMethod, node->inputs());
    call->s_(c10::attr::name, "forward");
    call->output()->copyMetadata(node->output());
    call->setSourceRange(node->sourceRange());
    node->output()->replaceAllUsesWith(call->output());
    node->destroy();
  }
}

/// The user's signature, on the new self.
c10::FunctionSchema on_new_self(const torch::jit::Module& module, const std::string& name,
                                const c10::FunctionSchema& schema) {
  std::vector<c10::Argument> arguments;
  for (const c10::Argument& argument : schema.arguments()) {
    arguments.push_back(arguments.empty() ? argument.cloneWithType(module.type()) : argument);
  }
  return c10::FunctionSchema(name, "", std::move(arguments), schema.returns());
}

/// The same stack, all of it in `function`.
torch::jit::InlinedCallStackPtr in_function(torch::jit::InlinedCallStack& stack,
                                            torch::jit::Function* function) {
  using torch::jit::InlinedCallStack;
  torch::jit::InlinedCallStackPtr made;
  const std::vector<torch::jit::InlinedCallStackEntry> entries = stack.vec();
  for (const auto& [gone, range, module] : entries | std::views::reverse)
    made = made ? c10::make_intrusive<InlinedCallStack>(made, function, range, module)
                : c10::make_intrusive<InlinedCallStack>(function, range, module);
  return made;
}

void own_call_stacks(torch::jit::Function& function, Graph& graph) {
  for (Node* node : nodes_in_order(graph)) {
    if (const auto stack = node->callstack()) node->setCallStack(in_function(**stack, &function));
  }
}

}  // namespace

void own_call_stacks(torch::jit::Module& module) {
  for (const torch::jit::Method& method : module.get_methods())
    own_call_stacks(method.function(), *torch::jit::toGraphFunction(method.function()).graph());
}

torch::jit::Function* add_method(torch::jit::Module& module, const std::string& name,
                                 const std::shared_ptr<Graph>& body) {
  body->inputs().at(0)->setType(module.type());
  torch::jit::Function* function = module._ivalue()->compilation_unit()->create_function(
      c10::QualifiedName(*module.type()->name(), name), body);
  own_call_stacks(*function, *body);
  module.type()->addMethod(function);
  return function;
}

void define_method(torch::jit::Module& module, const std::string& name, const std::shared_ptr<Graph>& body,
                   const c10::FunctionSchema& schema) {
  body->inputs().at(0)->setType(module.type());
  call_forward(*body);
  add_method(module, name, body)->setSchema(on_new_self(module, name, schema));
}

void strip_marks(Graph& graph, bool keeps_value_numbers) {
  for (Node* node : nodes_in_order(graph)) {
    for (const c10::Symbol name : node->attributeNames()) {
      const bool is_kept = keeps_value_numbers && name == kValueNumbers;
      if (!is_kept && std::string_view(name.toUnqualString()).starts_with("tsq_"))
        node->removeAttribute(name);
    }
  }
}

}  // namespace tsq::ir
