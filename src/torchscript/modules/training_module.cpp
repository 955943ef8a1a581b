#include "torchscript/modules/training_module.h"

#include <fmt/format.h>
#include <torch/csrc/jit/api/compilation_unit.h>
#include <tsq/error.h>

#include <set>
#include <span>
#include <vector>

#include "ir/analysis.h"
#include "ir/define_method.h"
#include "ir/edit.h"
#include "ir/live_nodes.h"
#include "ir/methods.h"
#include "operators/weighted.h"
#include "torchscript/modules/operators_apart.h"
#include "torchscript/modules/training_layers.h"

namespace tsq::torchscript {
namespace {

using ir::Graph;
using ir::ModuleCall;
using ir::Node;
using ir::Value;
using torch::jit::Module;

std::vector<std::string> atoms_of(const std::string& path) {
  return path.empty() ? std::vector<std::string>() : c10::QualifiedName(path).atoms();
}

std::string joined(const std::string& path, const std::string& name) {
  return path.empty() ? name : fmt::format("{}.{}", path, name);
}

/// `self.features.0` as TorchScript reads it.
std::string expression_of(const std::string& path) {
  std::string text = "self";
  for (const std::string& atom : atoms_of(path)) text = fmt::format("getattr({}, \"{}\")", text, atom);
  return text;
}

const c10::Symbol kReached = c10::Symbol::attr("tsq_reached");

class Writer {
 public:
  explicit Writer(const TrainingGraph& source)
      : source_(source), model_(source.gm.copy()), unit_(std::make_shared<torch::jit::CompilationUnit>()) {}

  Module run() {
    ir::join_methods(model_);
    collect_modules();
    collect_slots();
    root_ = container("", source_.model);
    register_observers();
    for (Node* node : ir::LiveNodes(*model_.graph)) {
      if (ir::is_module_call(node)) {
        call_modules(node);
      } else if (ir::is_observer(node)) {
        call_observer(node);
      }
    }
    ir::eliminate_dead_code(*model_.graph);
    ir::split_methods(model_);
    for (const std::shared_ptr<Graph>& each : graphs()) {
      place_attributes(*each);
      keep_operators_apart(*each);
    }
    ir::define_method(root_, "forward", model_.graph, model_.schema);
    for (const ir::Method& method : model_.methods)
      ir::define_method(root_, method.name, method.graph, method.schema);
    define_switches();
    return root_;
  }

 private:
  // The modules.

  void collect_modules() {
    for (Node* node : ir::nodes_in_order(*model_.graph)) {
      if (!ir::is_module_call(node)) continue;
      const ModuleCall& call = ir::call_of(model_, node);
      if (call.standalone) {
        if (replaced_.emplace(object_of(call), source_.standalone.at(call.path)).second)
          switched_.push_back(call.path);
      } else if (call.custom == ir::CustomState::Observed) {
        collect_observed(call);
      } else if (!is_training_layer(model_, call)) {
        keep(call);
        for (const ModuleCall& member : call.members) keep(member);
      } else {
        collect_training_layer(call);
      }
    }
  }

  /// An observed module of the user's class, with the fake quantize modules in it.
  void collect_observed(const ModuleCall& call) {
    const bool is_new = replaced_.emplace(object_of_model(call.path), *call.module).second;
    if (!is_new) return;
    for (const auto& inside : call.module->named_modules())
      observed_.push_back(inside.name.empty() ? call.path : joined(call.path, inside.name));
  }

  void collect_training_layer(const ModuleCall& call) {
    const ModuleCall& root = ir::root_of(call);
    if (!is_replaced(root)) replaced_.emplace(object_of(root), weighted_layer(call, root));
    for (const ModuleCall& member : std::span(call.members).subspan(call.members.empty() ? 0 : 1)) {
      if (!ir::is_batch_norm(member)) {
        keep(member);
      } else if (!is_replaced(member)) {
        replaced_.emplace(object_of(member), layers_.batch_norm(*member.module, member.type));
        batch_norms_.push_back(member.path);
      }
    }
  }

  Module weighted_layer(const ModuleCall& call, const ModuleCall& root) {
    const Module& fake_quantize = source_.gm.weight_fake_quants.at(call.path);
    if (!root.weighted) return layers_.reading_rounded(*call.module, fake_quantize);
    return layers_.weighted(*root.weighted, root.type, fake_quantize);
  }

  using Object = const c10::ivalue::Object*;
  static Object object_of(const ModuleCall& call) {
    if (call.module) return call.module->_ivalue().get();
    throw Error(ErrorCode::Unsupported,
                fmt::format("a {} out of a frozen file has no parameters that train", call.type.name),
                "give the file as it was before torch.jit.freeze", Where{.layer = call.path});
  }
  Object object_of_model(const std::string& path) const {
    return submodule_at(source_.model, path)._ivalue().get();
  }
  bool is_replaced(const ModuleCall& call) const { return replaced_.contains(object_of(call)); }

  /// A leaf that is called as it is: of the model or, in the place of the first that it fuses, of a fuser
  /// that a program has registered.
  void keep(const ModuleCall& call) {
    if (!call.module) return;
    kept_.insert(object_of(call));
    const Object of_model = object_of_model(call.path);
    if (of_model != object_of(call)) replaced_.emplace(of_model, *call.module);
  }

  /// Of forward and of the methods that are not in it.
  std::vector<std::shared_ptr<Graph>> graphs() const {
    std::vector<std::shared_ptr<Graph>> all{model_.graph};
    for (const ir::Method& method : model_.methods) {
      if (method.graph) all.push_back(method.graph);
    }
    return all;
  }

  /// The attributes of containers that the graphs read or write.
  void collect_slots() {
    for (const std::shared_ptr<Graph>& graph : graphs()) {
      for (const Node* node : ir::nodes_in_order(*graph)) {
        if (node->kind() != c10::prim::GetAttr && node->kind() != c10::prim::SetAttr) continue;
        const auto slot = model_.slots.find(node->s(c10::attr::name));
        if (slot != model_.slots.end()) used_.insert({slot->second.module, slot->second.name});
      }
    }
  }

  bool is_kept_by_name(const std::string& path) const {
    return path.find('.') == std::string::npos && model_.attributes.hasattr(path) &&
           model_.attributes.attr(path).isModule();
  }

  Module module_at(const std::string& path, const Module& of_model) {
    const Object key = of_model._ivalue().get();
    if (const auto found = replaced_.find(key); found != replaced_.end()) return found->second;
    return kept_.contains(key) || is_kept_by_name(path) ? of_model : container(path, of_model);
  }

  /// A module with the parameters, buffers and children of the user's, and what the graph reads of it.
  Module container(const std::string& path, const Module& of_model) {
    const Object key = of_model._ivalue().get();
    if (const auto made = containers_.find(key); made != containers_.end()) return made->second;
    const c10::QualifiedName name =
        path.empty() ? c10::QualifiedName("__torch__.tsq.GraphModule")
                     : of_model.type()->name().value_or(c10::QualifiedName("__torch__.tsq.Module"));
    Module made(path.empty() ? name : c10::QualifiedName("__torch__.tsq." + name.name()), unit_,
                /*shouldMangle=*/true);
    containers_.emplace(key, made);
    made.register_attribute("training", c10::BoolType::get(), true);
    const auto type = of_model.type();
    for (std::size_t i = 0; i < type->numAttributes(); ++i) {
      const std::string& attribute = type->getAttributeName(i);
      const c10::IValue value = of_model.attr(attribute);
      if (attribute == "training") continue;
      if (value.isModule()) {
        made.register_module(attribute, module_at(joined(path, attribute), value.toModule()));
      } else if (type->is_parameter(i) || type->is_buffer(i) || used_.contains({path, attribute})) {
        made.register_attribute(attribute, type->getAttribute(i), value, type->is_parameter(i),
                                type->is_buffer(i));
      }
    }
    return made;
  }

  void register_observers() {
    for (const ir::ObserverEntry& observer : model_.observers) {
      observer_names_.push_back(observer_attribute(source_.model, observer.name));
      root_.register_module(observer_names_.back(), *observer.module);
    }
  }

  // The graph.

  Value* constant(const c10::IValue& value) { return model_.graph->insertConstant(value); }

  /// The module at a path, and the value that it is at the graph's insertion point.
  std::pair<Module, Value*> reach(Graph& graph, const std::string& path) {
    std::pair<Module, Value*> at{root_, graph.inputs().at(0)};
    for (const std::string& atom : atoms_of(path)) {
      const Module next = at.first.attr(atom).toModule();
      at = {next,
            ir::read_attribute(graph.insertPoint(), at.second, atom, at.first.type()->getAttribute(atom))};
      at.second->node()->i_(kReached, 1);
    }
    return at;
  }

  Value* insert(const char* kind, const std::vector<Value*>& inputs) {
    return ir::insert_before(model_.graph->insertPoint(), kind, inputs);
  }

  Value* call(const std::string& path, const std::string& method, std::vector<Value*> inputs,
              const c10::TypePtr& result) {
    inputs.insert(inputs.begin(), reach(*model_.graph, path).second);
    Node* node = ir::insert_node(model_.graph->insertPoint(), c10::prim::CallMethod, inputs);
    node->s_(c10::attr::name, method);
    return node->output()->setType(result);
  }

  void replace(Node* node, Value* result) {
    node->output()->replaceAllUsesWith(result);
    node->destroy();
  }

  void call_observer(Node* node) {
    const torch::jit::WithInsertPoint guard(node);
    const std::string& name = observer_names_.at(ir::observer_index(node));
    replace(node, call(name, "forward", {node->input(0)}, c10::TensorType::get()));
  }

  void call_modules(Node* node) {
    const torch::jit::WithInsertPoint guard(node);
    const ModuleCall made = ir::call_of(model_, node);
    const std::vector<Value*> inputs = node->inputs().vec();
    Value* result = made.members.empty()
                        ? apply(made, inputs, node->output()->type(), is_training_layer(model_, made))
                        : apply_fused(made, inputs, node->output()->type());
    if (node->output()->hasDebugName()) result->setDebugName(node->output()->debugNameBase());
    replace(node, result);
  }

  Value* apply(const ModuleCall& made, const std::vector<Value*>& inputs, const c10::TypePtr& result,
               bool trains_weight) {
    if (trains_weight && made.weighted)
      return call(made.path, "forward", {inputs.front()}, c10::TensorType::get());
    if (made.standalone) return call(made.path, "forward", inputs, result);
    // A trace has a method for each call; a batch norm that trains in a layer has one for all.
    const bool is_own = ir::is_batch_norm(made) && made.module && is_replaced(made);
    if (made.module) return call(made.path, is_own ? "forward" : made.method, inputs, result);
    if (made.type.name == "torch.nn.Tanh") return insert("aten::tanh", {inputs.front()});
    if (made.type.name == "torch.nn.LeakyReLU")
      return insert("aten::leaky_relu", {inputs.front(), constant(made.constants.front())});
    if (made.type.name == "torch.nn.ReLU") return insert("aten::relu", {inputs.front()});
    object_of(made);  // throws
    return nullptr;
  }

  /// Members in sequence; a second input is added to what the root returns, or its batch norm.
  Value* apply_fused(const ModuleCall& fused, const std::vector<Value*>& inputs, const c10::TypePtr& result) {
    const bool trains_weight = is_training_layer(model_, fused);
    const bool is_scaled = trains_weight && fused.members.size() > 1 && ir::is_batch_norm(fused.members[1]);
    Value* value = is_scaled ? apply_scaled(fused, inputs.front())
                             : apply(fused.members.front(), {inputs.front()}, result, trains_weight);
    std::size_t next = 1;
    const auto apply_next = [&] {
      value = apply(fused.members[next++], {value}, result, /*trains_weight=*/false);
    };
    if (is_scaled) apply_next();
    if (inputs.size() == 2) value = insert("aten::add", {value, inputs[1], constant(int64_t{1})});
    while (next < fused.members.size()) apply_next();
    return value;
  }

  Value* apply_scaled(const ModuleCall& fused, Value* input) {
    const auto [batch_norm, value] = reach(*model_.graph, fused.members[1].path);
    Node* before = model_.graph->insertPoint();
    Value* gamma = ir::read_attribute(before, value, "weight", c10::TensorType::get());
    Value* running_var = ir::read_attribute(before, value, "running_var", c10::TensorType::get());
    Value* eps = constant(batch_norm.attr("eps"));
    return call(fused.members.front().path, "forward_scaled", {input, gamma, running_var, eps},
                c10::TensorType::get());
  }

  /// The attributes that a method reads and writes are those of the modules that own them.
  void place_attributes(Graph& graph) {
    graph.inputs().at(0)->setType(root_.type());
    for (Node* node : ir::nodes_in_order(graph)) {
      const bool touches = node->kind() == c10::prim::GetAttr || node->kind() == c10::prim::SetAttr;
      if (!touches || node->hasAttribute(kReached) || node->input(0) != graph.inputs().at(0)) continue;
      const std::string name = node->s(c10::attr::name);
      if (const auto slot = model_.slots.find(name); slot != model_.slots.end()) {
        const torch::jit::WithInsertPoint guard(node);
        node->replaceInput(0, reach(graph, slot->second.module).second);
        node->s_(c10::attr::name, slot->second.name);
      } else if (model_.attributes.hasattr(name) && !model_.attributes.attr(name).isModule()) {
        node->s_(c10::attr::name, own_attribute(name));
      }
    }
    for (Node* node : ir::nodes_in_order(graph)) {
      if (node->hasAttribute(kReached)) node->removeAttribute(kReached);
    }
    ir::strip_marks(graph);
  }

  /// What passes have put in.
  std::string own_attribute(const std::string& name) {
    std::string& unique = own_[name];
    if (!unique.empty()) return unique;
    unique = name;
    while (root_.hasattr(unique) || source_.model.hasattr(unique)) unique += "_";
    root_.register_attribute(unique, model_.attributes.at(name).type, model_.attributes.attr(name));
    return unique;
  }

  // The switches.

  void define_switches() {
    std::vector<std::string> fake_quants = observer_names_;
    for (const auto& [path, module] : source_.gm.weight_fake_quants)
      fake_quants.push_back(joined(path, "weight_fake_quant"));
    fake_quants.insert(fake_quants.end(), switched_.begin(), switched_.end());
    fake_quants.insert(fake_quants.end(), observed_.begin(), observed_.end());
    batch_norms_.insert(batch_norms_.end(), switched_.begin(), switched_.end());
    std::erase_if(fake_quants, [&](const std::string& path) {
      return !submodule_at(root_, path).find_method("disable_observer");
    });
    for (const char* name :
         {"enable_observer", "disable_observer", "enable_fake_quant", "disable_fake_quant"})
      define_switch(name, fake_quants);
    for (const char* name : {"freeze_bn_stats", "update_bn_stats"}) define_switch(name, batch_norms_);
  }

  void define_switch(const std::string& name, const std::vector<std::string>& paths) {
    if (root_.find_method(name) || source_.model.hasattr(name)) return;
    std::string source = fmt::format("def {}(self) -> None:\n", name);
    for (const std::string& path : paths) source += fmt::format("    {}.{}()\n", expression_of(path), name);
    root_.define(source + "    return None\n");
  }

  const TrainingGraph& source_;
  ir::Model model_;
  std::shared_ptr<torch::jit::CompilationUnit> unit_;
  Module root_{};
  TrainingLayers layers_{};
  std::map<Object, Module> replaced_{};     ///< by the user's module
  std::vector<std::string> batch_norms_{};  ///< paths of those that train inside of a layer
  std::vector<std::string> switched_{};     ///< paths of standalone modules, which have switches of their own
  std::vector<std::string> observed_{};     ///< paths of observed modules and what is in them
  std::set<Object> kept_{};                 ///< leaves of the user's that are called as they are
  std::set<std::pair<std::string, std::string>> used_{};
  std::map<Object, Module> containers_{};
  std::map<std::string, std::string> own_{};
  std::vector<std::string> observer_names_{};
};

}  // namespace

Module submodule_at(const Module& root, const std::string& path) {
  Module at = root;
  for (const std::string& atom : atoms_of(path)) at = at.attr(atom).toModule();
  return at;
}

std::string observer_attribute(const Module& model, const std::string& observer) {
  std::string name = observer;
  while (model.hasattr(name) || model.find_method(name)) name += "_";
  return name;
}

Module training_module(const TrainingGraph& source) { return Writer(source).run(); }

}  // namespace tsq::torchscript
