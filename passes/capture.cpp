// model.pt → flat graph of leaf modules and operators (FX's symbolic trace, from TorchScript).

#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/passes/constant_propagation.h>
#include <torch/csrc/jit/passes/dead_code_elimination.h>
#include <torch/csrc/jit/passes/inliner.h>
#include <torch/csrc/jit/passes/loop_unrolling.h>
#include <torch/csrc/jit/passes/lower_tuples.h>
#include <torch/csrc/jit/passes/peephole_dict_idioms.h>
#include <torch/csrc/jit/passes/peephole_list_idioms.h>
#include <torch/csrc/jit/passes/peephole_non_tensor.h>
#include <tsq/error.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "modules/weighted.h"
#include "passes/passes.h"

namespace tsq::passes {
namespace {

using ir::GraphModule;
using ir::Node;
using ir::Scope;
using ir::Value;
using torch::jit::Module;
using ObjectPointer = const c10::ivalue::Object*;

/// A copy of a module and its children that shares their tensors: its attributes may be changed without the
/// user's module seeing it.
Module copy_in_eval_mode(const Module& module) {
  Module copy = module.copy();
  for (const auto& child : module.named_children())
    copy.setattr(child.name, copy_in_eval_mode(child.value)._ivalue());
  if (copy.hasattr("training")) copy.setattr("training", false);
  return copy;
}

Symbol class_symbol(const Module& module) {
  const auto name = module.type()->name();
  return symbol(name ? name->qualifiedName() : "");
}

/// C-22: FloatFunctional passes its results to an Identity, which eager mode replaces by an observer. FX does
/// not see it.
bool is_stub_of_eager_mode(const Module& module, const Scope& caller) {
  return caller.type.name.ends_with(".FloatFunctional") && class_symbol(module).name == "torch.nn.Identity";
}

/// C-23: what FX's tracer does not look into.
bool is_leaf(const Module& module, const std::string& path, const PrepareCustomConfig& custom) {
  const Symbol type = class_symbol(module);
  const auto& names = custom.non_traceable_module_names();
  const auto& classes = custom.non_traceable_module_classes();
  if (std::find(names.begin(), names.end(), path) != names.end()) return true;
  if (std::find(classes.begin(), classes.end(), type) != classes.end()) return true;
  if (custom.standalone_module(path, type) != nullptr) return true;
  const bool library = type.name.starts_with("torch.nn.") || type.name.starts_with("torch.ao.nn.");
  return library && type.name != "torch.nn.Sequential" && type.name != "torch.nn.ModuleList" &&
         type.name != "torch.nn.ModuleDict" && type.name != "torch.nn.Module";
}

void collect_written_attributes(torch::jit::Block* block, std::unordered_set<std::string>& names) {
  for (Node* node : block->nodes()) {
    if (node->kind() == c10::prim::SetAttr) names.insert(node->s(c10::attr::name));
    for (auto* inner : node->blocks()) collect_written_attributes(inner, names);
  }
}

/// Names of attributes that some method of the model assigns: these are state, not constants.
std::unordered_set<std::string> written_attributes(const Module& module) {
  std::unordered_set<std::string> names;
  for (const Module& each : module.modules()) {
    for (const auto& method : each.get_methods()) {
      collect_written_attributes(torch::jit::toGraphFunction(method.function()).graph()->block(), names);
    }
  }
  return names;
}

/// Overloaded forwards (LSTM, GRU) are compiled as forward__0, forward__1; tracing gives a module that is
/// called again a forward1, forward2 …
bool is_forward(const std::string& method) {
  constexpr std::string_view kForward = "forward";
  if (!method.starts_with(kForward)) return false;
  const std::string_view number = std::string_view(method).substr(kForward.size());
  return number.starts_with("__") || number.find_first_not_of("0123456789") == std::string_view::npos;
}

bool is_same_tensor(const at::Tensor& a, const at::Tensor& b) {
  return a.defined() && b.defined() && a.is_alias_of(b) && a.storage_offset() == b.storage_offset() &&
         a.sizes() == b.sizes() && a.strides() == b.strides();
}

bool is_immutable_value(const c10::IValue& value) {
  return value.isNone() || value.isBool() || value.isInt() || value.isDouble() || value.isString();
}

/// Whether every use of a list is in the block that makes it, and only reads it or appends to it.
bool only_grows(const Node* list) {
  const auto uses = list->output()->uses();
  return std::all_of(uses.begin(), uses.end(), [&](const torch::jit::Use& use) {
    if (use.user->owningBlock() != list->owningBlock() || use.user->kind() == c10::prim::Return) return false;
    if (use.user->kind() == c10::aten::append) return use.offset == 0 && !use.user->output()->hasUses();
    const c10::FunctionSchema* schema = use.user->maybeSchema();
    return use.user->kind().is_aten() && schema != nullptr && !schema->is_mutable();
  });
}

/// A list that grows by append becomes a new list at each append: what reads it then reads a list with known
/// elements.
///   l = [a]; append(l, b); cat(l)   →   l = [a]; l2 = [a, b]; cat(l2)
void replace_grown_list(torch::jit::Graph& graph, Node* list) {
  if (!only_grows(list)) return;
  std::vector<Node*> appends;
  for (const auto& use : list->output()->uses()) {
    if (use.user->kind() == c10::aten::append) appends.push_back(use.user);
  }
  std::sort(appends.begin(), appends.end(), [](const Node* a, const Node* b) { return a->isBefore(b); });
  Value* current = list->output();
  std::vector<Value*> elements(list->inputs().begin(), list->inputs().end());
  for (Node* append : appends) {
    elements.push_back(append->input(1));
    Node* grown = graph.create(c10::prim::ListConstruct, elements, 1);
    grown->output()->setType(list->output()->type());
    grown->insertAfter(append);
    current->replaceAllUsesAfterNodeWith(append, grown->output());
    current = grown->output();
    append->destroy();
  }
}

/// E-02. Throws Error(BadConfig) for an output other than the first.
std::optional<ir::StandaloneBoundary> standalone_boundary(const PrepareCustomConfig& custom,
                                                          const std::string& path, Symbol type) {
  const StandaloneModuleConfig* config = custom.standalone_module(path, type);
  if (config == nullptr) return std::nullopt;
  const std::vector<int>& outputs = config->prepare_custom_config.output_quantized_indexes();
  if (!outputs.empty() && outputs.front() != 0) {
    throw Error(ErrorCode::BadConfig,
                "a standalone module has one output, its output_quantized_idxs must be [0]",
                "give [0] for an output that leaves quantized, [] for a float one", Where{.layer = path});
  }
  return ir::StandaloneBoundary{
      .input_quantized_indexes = config->prepare_custom_config.input_quantized_indexes(),
      .output_is_quantized = !outputs.empty()};
}

/// Whether every use of a dict is in the block that makes it, and only reads it or sets a key that is a
/// constant.
bool only_sets_known_keys(const Node* dict) {
  const auto is_known = [](const Value* key) { return key->node()->kind() == c10::prim::Constant; };
  for (std::size_t i = 0; i < dict->inputs().size(); i += 2) {
    if (!is_known(dict->input(i))) return false;
  }
  const auto uses = dict->output()->uses();
  return std::all_of(uses.begin(), uses.end(), [&](const torch::jit::Use& use) {
    if (use.user->owningBlock() != dict->owningBlock()) return false;
    if (use.user->kind() == c10::aten::_set_item) return use.offset == 0 && is_known(use.user->input(1));
    const c10::FunctionSchema* schema = use.user->maybeSchema();
    return use.user->kind() == c10::prim::Return ||
           (use.user->kind().is_aten() && schema != nullptr && !schema->is_mutable());
  });
}

/// Sets a key of a dict that is written as keys and values in turn.
void set_key(std::vector<Value*>& entries, Value* key, Value* value) {
  const auto wanted = torch::jit::toIValue(key);
  for (std::size_t i = 0; i < entries.size(); i += 2) {
    if (torch::jit::toIValue(entries[i]) != wanted) continue;
    entries[i + 1] = value;
    return;
  }
  entries.insert(entries.end(), {key, value});
}

/// A dict that gets further keys becomes a new dict at each of them.
///   d = {"a": x}; d["b"] = y; d["b"]   →   d = {"a": x}; d2 = {"a": x, "b": y}; d2["b"]
void replace_filled_dict(torch::jit::Graph& graph, Node* dict) {
  if (!only_sets_known_keys(dict)) return;
  std::vector<Node*> sets;
  for (const auto& use : dict->output()->uses()) {
    if (use.user->kind() == c10::aten::_set_item) sets.push_back(use.user);
  }
  std::sort(sets.begin(), sets.end(), [](const Node* a, const Node* b) { return a->isBefore(b); });
  Value* current = dict->output();
  std::vector<Value*> entries(dict->inputs().begin(), dict->inputs().end());
  for (Node* set : sets) {
    set_key(entries, set->input(1), set->input(2));
    Node* filled = graph.create(c10::prim::DictConstruct, entries, 1);
    filled->output()->setType(dict->output()->type());
    filled->insertAfter(set);
    current->replaceAllUsesAfterNodeWith(set, filled->output());
    current = filled->output();
    set->destroy();
  }
}

class Capture {
 public:
  Capture(const Module& model, const PrepareCustomConfig& custom)
      : model_(model), custom_(custom), written_(written_attributes(model)) {
    for (const auto& named : model.named_modules())
      paths_.try_emplace(named.value._ivalue().get(), named.name);
  }

  GraphModule run() {
    const auto method = model_.find_method("forward");
    if (!method) {
      throw Error(ErrorCode::BadModel, "the model has no method 'forward'",
                  "script or trace a module whose forward is the computation to quantize");
    }
    gm_.schema = method->function().getSchema();
    gm_.graph = torch::jit::toGraphFunction(method->function()).graph()->copy();
    gm_.scopes.push_back({"", class_symbol(model_)});
    owners_[gm_.graph->inputs().at(0)] = model_;
    walk(gm_.graph->block(), 0);
    drop_module_values();
    fold_constants();
    make_module_calls();
    gm_.graph->inputs().at(0)->setType(gm_.attributes.type());
    return std::move(gm_);
  }

 private:
  std::string path_of(const Module& module) const {
    const auto found = paths_.find(module._ivalue().get());
    return found == paths_.end() ? std::string() : found->second;
  }

  /// The module that a value is, when the model's own attributes tell.
  std::optional<Module> module_of(Value* value) {
    if (const auto found = owners_.find(value); found != owners_.end()) return found->second;
    Node* node = value->node();
    if (node->kind() != c10::prim::GetAttr) return std::nullopt;
    const auto owner = module_of(node->input(0));
    if (!owner) return std::nullopt;
    const c10::IValue attribute = owner->attr(node->s(c10::attr::name));
    if (!attribute.isModule()) return std::nullopt;
    owners_[value] = attribute.toModule();
    return attribute.toModule();
  }

  std::size_t scope_for(const Module& module) {
    const std::string path = path_of(module);
    for (std::size_t i = 0; i < gm_.scopes.size(); ++i) {
      if (gm_.scopes[i].path == path) return i;
    }
    gm_.scopes.push_back({path, class_symbol(module)});
    return gm_.scopes.size() - 1;
  }

  void walk(torch::jit::Block* block, std::size_t scope) {
    for (auto it = block->nodes().begin(); it != block->nodes().end();) {
      Node* node = *it;
      ++it;  // before the node goes away
      visit(node, scope);
    }
  }

  void visit(Node* node, std::size_t scope) {
    switch (node->kind()) {
      case c10::prim::CallMethod:
        return visit_method_call(node, scope);
      case c10::prim::CallFunction:
        return visit_function_call(node, scope);
      case c10::prim::GetAttr:
        return visit_get_attr(node, scope);
      case c10::prim::SetAttr:
        return visit_set_attr(node, scope);
      case c10::prim::Constant:
        return;
      default:
        ir::set_scope(node, scope);
        for (auto* inner : node->blocks()) walk(inner, scope);
    }
  }

  void visit_method_call(Node* node, std::size_t scope) {
    const auto module = module_of(node->input(0));
    ir::set_scope(node, scope);
    if (!module) return;
    const std::string& name = node->s(c10::attr::name);
    if (is_stub_of_eager_mode(*module, gm_.scopes[scope]) && node->inputs().size() == 2) {
      node->output()->replaceAllUsesWith(node->input(1));
      node->destroy();
      return;
    }
    if (is_forward(name) && is_leaf(*module, path_of(*module), custom_)) {
      if (!has_own_parameter(node, *module)) return;
      if (modules::is_weighted(class_symbol(*module))) return drop_own_parameters(node, *module);
    }
    auto& callee = torch::jit::toGraphFunction(module->get_method(name).function());
    inline_call(node, *callee.graph(), node->inputs(), scope_for(*module));
  }

  /// Tracing hands a parameter that has two owners to one of them as an argument of its forward.
  bool is_own_parameter(const Value* argument, const Module& module) const {
    const Node* node = argument->node();
    if (node->kind() != c10::prim::GetAttr || node->input(0) != gm_.graph->inputs().at(0)) return false;
    const std::string& slot = node->s(c10::attr::name);
    if (!gm_.attributes.hasattr(slot) || !gm_.attributes.attr(slot).isTensor()) return false;
    const at::Tensor tensor = gm_.attributes.attr(slot).toTensor();
    for (const at::Tensor& own : module.parameters()) {
      if (is_same_tensor(own, tensor)) return true;
    }
    return false;
  }

  bool has_own_parameter(const Node* call, const Module& module) const {
    return std::any_of(call->inputs().begin() + 1, call->inputs().end(),
                       [&](const Value* argument) { return is_own_parameter(argument, module); });
  }

  /// The module has its parameters without being given them.
  void drop_own_parameters(Node* call, const Module& module) const {
    for (std::size_t i = call->inputs().size(); i-- > 1;) {
      if (is_own_parameter(call->input(i), module)) call->removeInput(i);
    }
  }

  void visit_function_call(Node* node, std::size_t scope) {
    ir::set_scope(node, scope);
    if (!ir::targets(gm_, node).empty()) return;
    torch::jit::GraphFunction* callee = torch::jit::tryToGraphFunction(node);
    if (callee == nullptr) return;
    Node* function_constant = node->input(0)->node();
    inline_call(node, *callee->graph(), node->inputs().slice(1), scope);
    if (!function_constant->hasUses()) function_constant->destroy();
  }

  /// Puts the callee's body in place of the call and walks it.
  void inline_call(Node* node, torch::jit::Graph& callee, c10::ArrayRef<Value*> inputs, std::size_t scope) {
    Node* before = node->prev();
    std::vector<Value*> outputs;
    {
      torch::jit::WithInsertPoint guard(node);
      outputs = torch::jit::insertGraph(*gm_.graph, callee, inputs);
    }
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (!outputs[i]->hasDebugName() && node->outputs()[i]->hasDebugName()) {
        outputs[i]->setDebugName(node->outputs()[i]->debugNameBase());
      }
      node->outputs()[i]->replaceAllUsesWith(outputs[i]);
    }
    for (Node* inner = before->next(); inner != node;) {
      Node* next = inner->next();
      visit(inner, scope);
      inner = next;
    }
    node->destroy();
  }

  /// Attributes become constants when nothing writes them and their type allows, else slots of the flat graph
  /// module.
  void visit_get_attr(Node* node, std::size_t scope) {
    ir::set_scope(node, scope);
    const auto owner = module_of(node->input(0));
    if (!owner) return;
    const std::string& name = node->s(c10::attr::name);
    const c10::IValue value = owner->attr(name);
    if (value.isModule()) return;
    if (name == "training") return replace_by_constant(node, false);
    if (is_immutable_value(value) && !written_.contains(name)) return replace_by_constant(node, value);
    node->s_(c10::attr::name, slot_for(*owner, name));
    node->replaceInput(0, gm_.graph->inputs().at(0));
  }

  void visit_set_attr(Node* node, std::size_t scope) {
    ir::set_scope(node, scope);
    const auto owner = module_of(node->input(0));
    if (!owner) return;
    node->s_(c10::attr::name, slot_for(*owner, node->s(c10::attr::name)));
    node->replaceInput(0, gm_.graph->inputs().at(0));
  }

  void replace_by_constant(Node* node, const c10::IValue& value) {
    torch::jit::WithInsertPoint guard(node);
    node->output()->replaceAllUsesWith(gm_.graph->insertConstant(value));
    node->destroy();
  }

  std::string slot_for(const Module& owner, const std::string& name) {
    const auto key = std::make_pair(static_cast<ObjectPointer>(owner._ivalue().get()), name);
    for (const auto& [known, slot] : slots_) {
      if (known == key) return slot;
    }
    const std::string path = path_of(owner);
    const std::string slot = ir::unique_attribute_name(gm_, path.empty() ? name : path + "." + name);
    const auto type = owner.type()->getAttribute(name);
    const auto index = owner.type()->findAttributeSlot(name);
    if (index && owner.type()->is_parameter(*index) && owner.attr(name).isTensor()) {
      gm_.attributes.register_parameter(slot, owner.attr(name).toTensor(), /*is_buffer=*/false);
    } else {
      gm_.attributes.register_attribute(slot, type, owner.attr(name), /*is_param=*/false,
                                        index && owner.type()->is_buffer(*index));
    }
    slots_.emplace_back(key, slot);
    return slot;
  }

  /// Module values that only led to attributes and inlined calls.
  void drop_module_values() {
    std::vector<Node*> nodes = ir::nodes_in_order(*gm_.graph);
    for (auto it = nodes.rbegin(); it != nodes.rend(); ++it) {
      if ((*it)->kind() == c10::prim::GetAttr && !(*it)->output()->hasUses()) (*it)->destroy();
    }
  }

  /// What Python evaluates while FX traces: conditions on constants, loops of a known length, lists, dicts
  /// and tuples that are only a way to pass values.
  void fold_constants() {
    fold_conditions();
    if (torch::jit::UnrollConstantLoops(gm_.graph)) fold_conditions();
    torch::jit::EliminateDeadCode(gm_.graph);
    for (Node* node : ir::nodes_in_order(*gm_.graph)) {
      if (node->kind() == c10::prim::ListConstruct) replace_grown_list(*gm_.graph, node);
      if (node->kind() == c10::prim::DictConstruct) replace_filled_dict(*gm_.graph, node);
    }
    torch::jit::PeepholeOptimizeListIdioms(gm_.graph, /*refine_list_len=*/false);
    torch::jit::PeepholeOptimizeDictIdioms(gm_.graph);
    torch::jit::LowerSimpleTuples(gm_.graph);
    fold_conditions();
    torch::jit::EliminateDeadCode(gm_.graph);
  }

  void fold_conditions() {
    torch::jit::ConstantPropagationImmutableTypes(gm_.graph);
    torch::jit::PeepholeOptimizeNonTensor(gm_.graph);
    torch::jit::ConstantPropagationImmutableTypes(gm_.graph);
  }

  void make_module_calls() {
    // Values that folding destroyed may have left their addresses to new ones.
    owners_.clear();
    owners_[gm_.graph->inputs().at(0)] = model_;
    for (Node* node : ir::nodes_in_order(*gm_.graph)) {
      if (node->kind() != c10::prim::CallMethod || !is_forward(node->s(c10::attr::name))) continue;
      const auto module = module_of(node->input(0));
      if (!module) continue;
      ir::ModuleCall call{
          .type = class_symbol(*module),
          .path = path_of(*module),
          .module = copy_in_eval_mode(*module),
          .method = node->s(c10::attr::name),
          .standalone = standalone_boundary(custom_, path_of(*module), class_symbol(*module))};
      Node* made = ir::create_module_call(gm_, std::move(call), node->inputs().slice(1),
                                          ir::scope_index(node).value_or(0));
      made->insertBefore(node);
      made->output()->setType(node->output()->type());
      made->setSourceRange(node->sourceRange());
      node->output()->replaceAllUsesWith(made->output());
      node->destroy();
    }
    drop_module_values();
  }

  const Module& model_;
  const PrepareCustomConfig& custom_;
  std::unordered_set<std::string> written_;
  std::unordered_map<ObjectPointer, std::string> paths_;
  std::unordered_map<Value*, Module> owners_;
  std::vector<std::pair<std::pair<ObjectPointer, std::string>, std::string>> slots_;
  GraphModule gm_;
};

}  // namespace

ir::GraphModule capture(const torch::jit::Module& module, const PrepareCustomConfig& custom) {
  return Capture(module, custom).run();
}

}  // namespace tsq::passes
