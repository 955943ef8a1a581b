#include "passes/capture/inline_calls.h"

#include <fmt/format.h>
#include <torch/csrc/jit/passes/inliner.h>
#include <tsq/error.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/analysis.h"
#include "ir/constants.h"
#include "ir/edit.h"
#include "ir/methods.h"
#include "operators/weighted.h"
#include "passes/capture/attribute_slots.h"
#include "passes/capture/leaf_modules.h"
#include "passes/capture/module_choice.h"
#include "passes/capture/module_values.h"
#include "passes/capture/nested_tensors.h"
#include "passes/capture/opened_modules.h"
#include "passes/capture/places.h"
#include "passes/capture/resolve_futures.h"
#include "passes/context/nodes.h"
#include "torchscript/modules/attention_source.h"

namespace tsq::passes {
namespace {

void visit(Capturing& state, Node* node, std::size_t scope);

void visit_between(Capturing& state, Node* before, const Node* end, std::size_t scope) {
  for (Node* node = before->next(); node != end;) {
    Node* next = node->next();  // before the node is removed
    visit(state, node, scope);
    node = next;
  }
}

void walk(Capturing& state, ir::Block* block, std::size_t scope) {
  visit_between(state, block->param_node(), block->return_node(), scope);
}

/// Puts the callee's body in place of the call and walks it. The first result.
Value* inline_call(Capturing& state, Node* call, ir::Graph& callee, c10::ArrayRef<Value*> inputs,
                   std::size_t scope, int64_t places) {
  Node* before = call->prev();
  std::vector<Value*> outputs;
  {
    const torch::jit::WithInsertPoint guard(call);
    outputs = torch::jit::insertGraph(*state.model.graph, callee, inputs);
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i]->hasDebugName() && call->outputs()[i]->hasDebugName())
      outputs[i]->setDebugName(call->outputs()[i]->debugNameBase());
    call->outputs()[i]->replaceAllUsesWith(outputs[i]);
  }
  std::vector<Node*> inserted;
  for (Node* each = before->next(); each != call; each = each->next()) ir::collect_nodes(each, inserted);
  set_places(inserted, places);
  visit_between(state, before, call, scope);
  call->destroy();
  return outputs.empty() ? nullptr : outputs.front();
}

/// The same for code of torch.nn that FX would not look into.
Value* inline_opened(Capturing& state, Node* call, ir::Graph& callee, c10::ArrayRef<Value*> inputs,
                     std::size_t scope) {
  const bool before = std::exchange(state.in_opened_layer, true);
  Value* result = inline_call(state, call, callee, inputs, scope, places_of_call(call));
  state.in_opened_layer = before;
  return result;
}

/// Puts the layers of a module in place of its call, where they can be told.
void open_module(Capturing& state, Node* call, const Module& module) {
  const auto graph = opened_graph(module, call->s(c10::attr::name));
  if (graph) inline_opened(state, call, *graph, call->inputs(), scope_for(state, module));
}

/// Code of torch.nn computes with the weights of modules inside: an operator belongs to the module that has
/// its weight.
std::size_t scope_of_weight(Capturing& state, const Node* node, std::size_t scope) {
  const bool is_linear = node->kind() == c10::aten::linear;
  if (!state.in_opened_layer || (!is_linear && node->kind() != c10::aten::layer_norm)) return scope;
  const Value* weight = node->input(is_linear ? 1 : 2);
  while (weight->node()->kind() == c10::aten::slice) weight = weight->node()->input(0);
  const std::string* slot = ir::attribute_read(state.model, weight);
  const auto owner = slot == nullptr ? state.slot_owners.end() : state.slot_owners.find(*slot);
  if (owner == state.slot_owners.end()) return scope;
  const std::string& around = state.model.scopes[scope].path;
  const bool is_inside = around.empty() || path_of(state.source, owner->second).starts_with(around + ".");
  return is_inside ? scope_for(state, owner->second) : scope;
}

void visit_choices(Capturing& state, Node* call, std::size_t scope) {
  Node* before = call_each_choice(state, call);
  if (before == nullptr) return;
  visit_between(state, before, call, scope);
  call->destroy();
}

/// Whether a call of a leaf module has been dealt with.
bool visit_leaf_call(Capturing& state, Node* call, const Module& module) {
  if (is_opened(state.source, module)) {
    open_module(state, call, module);
    return true;
  }
  if (!has_own_parameter(state, call, module)) return true;
  if (!operators::is_weighted(class_symbol(module))) return false;
  drop_own_parameters(state, call, module);
  return true;
}

/// Whether a call of the model's own forward, in another method, stays one. A call for its effects alone
/// would be lost among what nobody uses.
bool stays_forward_call(const Capturing& state, const Node* call) {
  return state.in_other_method && state.source.opens_methods && call->s(c10::attr::name) == "forward" &&
         call->output()->hasUses();
}

void visit_method_call(Capturing& state, Node* call, std::size_t scope) {
  const auto module = module_of(state, call->input(0));
  ir::set_scope(call, scope);
  if (!module) return visit_choices(state, call, scope);
  const std::string name = call->s(c10::attr::name);
  if (is_stub_of_eager_mode(*module, state.model.scopes[scope]) && call->inputs().size() == 2)
    return replace_node(call, call->input(1));
  if (is_root(state.source, *module)) {
    if (stays_forward_call(state, call)) return;
    state.called_methods.insert(name);
  }
  if (!looks_into_leaves(state) && is_forward(name) && is_leaf(state.source, *module) &&
      visit_leaf_call(state, call, *module))
    return;
  auto& callee = torch::jit::toGraphFunction(module->get_method(name).function());
  inline_call(state, call, *callee.graph(), call->inputs(), scope_for(state, *module),
              places_of(path_of(state.source, *module), name));
}

/// A call of a function that FX keeps: all but torch.nn.functional's attention, where its layers are looked
/// for.
void visit_known_function(Capturing& state, Node* call, const Symbol& function, std::size_t scope) {
  const bool is_attention = function.name == "torch.nn.functional.multi_head_attention_forward";
  if (!is_attention || !state.source.looks_into_layers || looks_into_leaves(state)) return;
  if (const auto plain = torchscript::plain_function(call))
    inline_opened(state, call, *plain, call->inputs().slice(1), scope);
}

void visit_function_call(Capturing& state, Node* call, std::size_t scope) {
  ir::set_scope(call, scope);
  const auto targets = ir::targets(state.model, call);
  if (!targets.empty()) return visit_known_function(state, call, targets.front(), scope);
  torch::jit::GraphFunction* callee = torch::jit::tryToGraphFunction(call);
  if (callee == nullptr) return;
  Node* function_constant = call->input(0)->node();
  inline_call(state, call, *callee->graph(), call->inputs().slice(1), scope, places_of_call(call));
  if (!function_constant->hasUses()) function_constant->destroy();
}

/// What is forked runs where it is forked: the branches' kernels use all threads, one after the other.
void visit_fork(Capturing& state, Node* fork, std::size_t scope) {
  ir::set_scope(fork, scope);
  if (!state.keeps_forks)
    inline_call(state, fork, *fork->g(c10::attr::Subgraph), fork->inputs(), scope, places_of_call(fork));
}

/// Puts plain operators in place of the fused ones of attention; false for other nodes.
bool open_operator(Capturing& state, Node* node, std::size_t scope) {
  if (replace_nested_tensor(state, node, scope)) return true;
  const auto plain = torchscript::plain_operator(node);
  if (!plain) return false;
  Value* left_out = left_out_of(state, node);
  if (left_out != nullptr) give_mask(node, left_out);
  Value* result = inline_opened(state, node, *plain, node->inputs(), scope);
  if (left_out != nullptr) state.left_out[result] = left_out;
  return true;
}

void visit_operator(Capturing& state, Node* node, std::size_t scope) {
  ir::set_scope(node, scope_of_weight(state, node, scope));
  if (state.source.opens_operators && !looks_into_leaves(state)) {
    if (open_operator(state, node, scope)) return;
    if (const auto branch = branch_without_fused_attention(node))
      node->replaceInput(0, ir::constant_before(node, *branch));
  }
  for (ir::Block* inner : node->blocks()) walk(state, inner, scope);
}

void visit(Capturing& state, Node* node, std::size_t scope) {
  switch (node->kind()) {
    case c10::prim::CallMethod:
      return visit_method_call(state, node, scope);
    case c10::prim::CallFunction:
      return visit_function_call(state, node, scope);
    case c10::prim::GetAttr:
      return visit_get_attr(state, node, scope);
    case c10::prim::SetAttr:
      return visit_set_attr(state, node, scope);
    case c10::prim::Constant:
      return;
    case c10::prim::fork:
      return visit_fork(state, node, scope);
    default:
      return visit_operator(state, node, scope);
  }
}

/// torch.jit.optimize_for_inference puts operators of oneDNN with weights in a layout of its own in place of
/// convolutions.
void check_is_not_optimized(ir::Graph& graph) {
  for (const Node* node : ir::nodes_in_order(graph)) {
    const std::string_view kind = node->kind().toQualString();
    const bool is_onednn = kind.starts_with("prim::mkldnn") || kind.starts_with("prim::MKLDNN") ||
                           kind == "prim::ConstantMKLDNNTensor" || kind == "aten::to_mkldnn";
    if (!is_onednn) continue;
    throw Error(
        ErrorCode::BadModel,
        fmt::format("the model holds {}: it was optimized for inference, and its weights are in a layout "
                    "of oneDNN's own",
                    kind),
        "quantize it before torch.jit.optimize_for_inference; frozen is fine");
  }
}

void inline_method(Capturing& state, const torch::jit::Method& method) {
  state.model.graph = torch::jit::toGraphFunction(method.function()).graph()->copy();
  ir::Graph& graph = *state.model.graph;
  check_is_not_optimized(graph);
  forget_module_values(state, graph);
  set_places(ir::nodes_in_order(graph), places_of("", method.name()));
  walk(state, graph.block(), 0);
  drop_aliases(state);
}

}  // namespace

std::shared_ptr<ir::Graph> inline_calls(Capturing& state, const torch::jit::Method& method) {
  inline_method(state, method);
  // A future that leaves the method's own code keeps the fork that it comes from.
  if (!state.keeps_forks && !resolve_futures(*state.model.graph, method.function().getSchema())) {
    state.keeps_forks = true;
    inline_method(state, method);
    state.keeps_forks = false;
  }
  drop_module_values(*state.model.graph);
  return state.model.graph;
}

}  // namespace tsq::passes
