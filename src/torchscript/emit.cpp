#include "torchscript/emit.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <torch/csrc/jit/api/compilation_unit.h>
#include <torch/csrc/jit/passes/constant_propagation.h>
#include <torch/csrc/jit/passes/inliner.h>
#include <torch/csrc/jit/passes/peephole_non_tensor.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "backends/kernels/packed.h"
#include "ir/analysis.h"
#include "ir/define_method.h"
#include "ir/edit.h"
#include "ir/methods.h"
#include "ir/own_classes.h"
#include "ir/quantize_operators.h"
#include "torchscript/layer_module.h"
#include "torchscript/recurrent.h"
#include "torchscript/user_layout.h"

namespace tsq::torchscript {
namespace {

using ir::Graph;
using ir::Method;
using ir::Model;
using ir::ModuleCall;
using ir::Node;
using ir::Value;
using ir::Weighted;

using torch::jit::Module;

/// On the call of a layer that is a module: its number.
const c10::Symbol kLayer = c10::Symbol::attr("layer");

/// A linear layer, convolution or rounded recurrent layer as a module, and what it was made from.
struct Layer {
  std::string path{};
  Module module{};
  const ModuleCall* call{};
};

class Emitter {
 public:
  Emitter(const Model& source, Layout layout)
      : model_(source.copy()),
        has_observers_(std::ranges::any_of(ir::nodes_in_order(*model_.graph), ir::is_observer)),
        layout_(layout),
        root_("__torch__.tsq.GraphModule", std::make_shared<torch::jit::CompilationUnit>()) {}

  Module run() {
    join_methods(model_);
    for (Node* node : ir::nodes_in_order(*model_.graph)) {
      if (ir::is_module_call(node)) {
        expand(node);
      } else if (ir::is_observer(node)) {
        call_observer(node);
      }
    }
    ir::eliminate_dead_code(*model_.graph);
    split_methods(model_);
    ir::strip_marks(*model_.graph);
    for (Method& method : model_.methods) ir::strip_marks(*method.graph);
    self()->setType(model_.attributes.type());
    // Observers stay calls: each class is compiled once, where inlining would copy their code to every place.
    if (!has_observers_) inline_calls(model_.graph);
    for (Method& method : model_.methods) {
      method.graph->inputs().at(0)->setType(model_.attributes.type());
      inline_calls(method.graph);
    }
    if (!has_observers_) own_classes(model_, root_._ivalue()->compilation_unit());
    copy_attributes();
    call_layers();
    ir::define_method(root_, "forward", model_.graph, model_.schema);
    for (const Method& method : model_.methods)
      ir::define_method(root_, method.name, method.graph, method.schema);
    return root_;
  }

 private:
  Value* self() { return model_.graph->inputs().at(0); }
  Graph& graph() { return *model_.graph; }
  Value* constant(const c10::IValue& value) { return graph().insertConstant(value); }

  Value* insert(const char* kind, std::vector<Value*> inputs) {
    Node* node = graph().create(c10::Symbol::fromQualString(kind), inputs, 1);
    graph().insertNode(node);
    return node->output();
  }

  /// The tensor of a layer.
  Value* tensor_attribute(const ModuleCall& call, const std::string& of_layer, const at::Tensor& tensor,
                          bool as_parameter = false) {
    if (!tensor.defined()) return constant(c10::IValue());
    const std::string name = fmt::format("{}_{}", call.path, of_layer);
    const auto key = std::make_pair(static_cast<const void*>(tensor.unsafeGetTensorImpl()), name);
    auto found = tensors_.find(key);
    if (found == tensors_.end()) {
      const std::string unique = unique_attribute_name(model_, name);
      if (tensor.requires_grad() || as_parameter) {
        model_.attributes.register_parameter(unique, as_parameter ? tensor.detach().requires_grad_() : tensor,
                                             /*is_buffer=*/false);
      } else {
        model_.attributes.register_attribute(unique, c10::TensorType::get(), tensor);
      }
      found = tensors_.emplace(key, unique).first;
    }
    return get_attribute(found->second, c10::TensorType::get());
  }

  Value* get_attribute(const std::string& name, const c10::TypePtr& type) {
    Node* node = graph().create(c10::prim::GetAttr, {self()}, 1);
    node->s_(c10::attr::name, name);
    node->output()->setType(type);
    graph().insertNode(node);
    return node->output();
  }

  /// The sub-module's attribute, made at its first call.
  std::string submodule(const std::string& path, const Module& module) {
    const void* key = module._ivalue().get();
    auto found = submodules_.find(key);
    if (found == submodules_.end()) {
      const std::string name = unique_attribute_name(model_, path);
      model_.attributes.register_attribute(name, module.type(), module._ivalue());
      model_.slots[name] = slot_at(path);
      found = submodules_.emplace(key, name).first;
    }
    return found->second;
  }

  Value* call_method(const std::string& method, const std::string& path, const Module& module,
                     std::vector<Value*> inputs, const c10::TypePtr& result) {
    Value* instance = get_attribute(submodule(path, module), module.type());
    inputs.insert(inputs.begin(), instance);
    Node* node = graph().create(c10::prim::CallMethod, inputs, 1);
    node->s_(c10::attr::name, method);
    node->output()->setType(result);
    graph().insertNode(node);
    return node->output();
  }

  void call_observer(Node* node) {
    const torch::jit::WithInsertPoint guard(node);
    const ir::ObserverEntry& observer = ir::observer_of(model_, node);
    Value* result =
        call_method("forward", observer.name, *observer.module, {node->input(0)}, c10::TensorType::get());
    node->output()->replaceAllUsesWith(result);
    node->destroy();
  }

  void expand(Node* node) {
    const torch::jit::WithInsertPoint guard(node);
    const ModuleCall& call = call_of(model_, node);
    std::vector<Value*> inputs(node->inputs().begin(), node->inputs().end());
    Value* result = apply(call, inputs, node->output()->type());
    if (node->output()->hasDebugName()) result->setDebugName(node->output()->debugNameBase());
    node->output()->replaceAllUsesWith(result);
    node->destroy();
  }

  Value* apply(const ModuleCall& call, const std::vector<Value*>& inputs, const c10::TypePtr& result) {
    if (call.weighted) return apply_weighted(call, inputs.front());
    if (!call.members.empty()) return apply_fused(call, inputs, result);
    if (!call.recurrent_qparams.empty()) return apply_recurrent(call, inputs, result);
    if (call.module) return call_method(call.method, call.path, *call.module, inputs, result);
    if (call.type.name == "torch.nn.Tanh") return insert("aten::tanh", {inputs.front()});
    if (call.type.name == "torch.nn.LeakyReLU")
      return insert("aten::leaky_relu", {inputs.front(), constant(call.constants.front())});
    return insert("aten::relu", {inputs.front()});
  }

  Value* apply_recurrent(const ModuleCall& call, const std::vector<Value*>& inputs,
                         const c10::TypePtr& result) {
    const auto key = std::make_pair(static_cast<const void*>(call.module->_ivalue().get()), call.method);
    auto found = recurrent_.find(key);
    if (found == recurrent_.end()) {
      found = recurrent_.emplace(key, layers_.size()).first;
      layers_.push_back({.path = call.path,
                         .module = torchscript::rounded_recurrent(call, call.recurrent_qparams),
                         .call = &call});
    }
    if (layout_ == Layout::OfUser) return call_layer(found->second, inputs, result);
    return call_method("forward", call.path, layers_.at(found->second).module, inputs, result);
  }

  /// The members in sequence; a second input is the other addend, added to the root's output.
  Value* apply_fused(const ModuleCall& call, const std::vector<Value*>& inputs, const c10::TypePtr& result) {
    Value* value = apply(call.members.front(), {inputs.front()}, result);
    if (inputs.size() == 2) value = insert("aten::add", {value, inputs[1], constant(int64_t{1})});
    for (std::size_t i = 1; i < call.members.size(); ++i) value = apply(call.members[i], {value}, result);
    return value;
  }

  Value* apply_weighted(const ModuleCall& call, Value* input) {
    if (const std::optional<std::size_t> layer = layer_of(call))
      return call_layer(*layer, {input}, c10::TensorType::get());
    const Weighted& w = *call.weighted;
    LayerValues values{.input = input,
                       .weight = tensor_attribute(call, "weight", w.weight, weight_is_parameter(w)),
                       .bias = tensor_attribute(call, "bias", w.bias)};
    if (has_rounded_weight(call)) {
      const QParams& qparams = *w.weight_qparams;
      const bool is_per_tensor = qparams.qscheme == c10::QScheme::PER_TENSOR_AFFINE;
      values.weight_scale =
          is_per_tensor ? insert_double(model_, call.path + "_weight_scale", qparams.scale.item<float>())
                        : tensor_attribute(call, "weight_scale", flat_qparam(w, qparams.scale));
      values.weight_zero_point =
          is_per_tensor ? constant(qparams.zero_point.item<int64_t>())
                        : tensor_attribute(call, "weight_zero_point", flat_qparam(w, qparams.zero_point));
      values.weight_axis = constant(qparams.axis);
      values.weight_dtype = constant(static_cast<int64_t>(qparams.dtype));
    }
    return write_layer(graph(), call, values);
  }

  /// The call of a module that has no place yet: self is None, which inlining leaves alone.
  Value* call_layer(std::size_t layer, const std::vector<Value*>& inputs, const c10::TypePtr& result) {
    std::vector<Value*> all{constant(c10::IValue())};
    all.insert(all.end(), inputs.begin(), inputs.end());
    Node* node = graph().insertNode(graph().create(c10::prim::CallMethod, all, 1));
    node->s_(c10::attr::name, "forward");
    node->i_(kLayer, static_cast<int64_t>(layer));
    node->output()->setType(result);
    return node->output();
  }

  /// Out of a frozen file, a weight is a parameter while it is observed.
  bool weight_is_parameter(const Weighted& weighted) const { return weighted.was_frozen && has_observers_; }

  /// The module at a layer's own path; none where the layer is operators of the graph.
  std::optional<std::size_t> layer_of(const ModuleCall& call) {
    if (layout_ == Layout::Flat || call.path.empty()) return std::nullopt;
    const auto [begin, end] = layers_at_.equal_range(call.path);
    for (auto known = begin; known != end; ++known) {
      if (is_same_layer(*layers_.at(known->second).call, call)) return known->second;
    }
    layers_at_.emplace(call.path, layers_.size());
    layers_.push_back({.path = call.path,
                       .module = layer_module(call, weight_is_parameter(*call.weighted),
                                              root_._ivalue()->compilation_unit()),
                       .call = &call});
    return layers_.size() - 1;
  }

  /// Leaf modules are inlined, `training` is false, and what depends on that alone is folded.
  static void inline_calls(std::shared_ptr<Graph>& graph) {
    torch::jit::Inline(*graph);
    for (Node* node : ir::nodes_in_order(*graph)) {
      if (node->kind() != c10::prim::GetAttr || node->s(c10::attr::name) != "training") continue;
      const torch::jit::WithInsertPoint guard(node);
      node->output()->replaceAllUsesWith(graph->insertConstant(false));
    }
    torch::jit::ConstantPropagationImmutableTypes(graph);
    torch::jit::PeepholeOptimizeNonTensor(graph);
    ir::eliminate_dead_code(*graph);
  }

  static void collect_attributes(Graph& graph, std::set<std::string>& names) {
    for (const Node* node : ir::nodes_in_order(graph)) {
      const bool touches = node->kind() == c10::prim::GetAttr || node->kind() == c10::prim::SetAttr;
      if (touches && node->input(0) == graph.inputs().at(0)) names.insert(node->s(c10::attr::name));
    }
  }

  /// Each module that is made gets a state of its own: running it changes no other. Observers come first:
  /// what reads a stage from a file knows them by their names.
  void copy_attributes() {
    std::set<std::string> used;
    collect_attributes(graph(), used);
    for (const Method& method : model_.methods) collect_attributes(*method.graph, used);
    for (const ir::ObserverEntry& observer : model_.observers) {
      const auto found =
          observer.module ? submodules_.find(observer.module->_ivalue().get()) : submodules_.end();
      if (found == submodules_.end() || used.erase(found->second) == 0) continue;
      hung_.hang(found->second, std::nullopt, observer.module->type(), observer.module->_ivalue(),
                 /*is_parameter=*/false, /*is_buffer=*/false);
    }
    c10::IValue::HashIdentityIValueMap copies;
    const auto type = model_.attributes.type();
    for (std::size_t i = 0; i < type->numAttributes(); ++i) {
      const std::string& name = type->getAttributeName(i);
      if (!used.contains(name)) continue;
      const c10::IValue value = model_.attributes.attr(name);
      const auto slot = model_.slots.find(name);
      const bool is_placed = layout_ == Layout::OfUser && slot != model_.slots.end();
      hung_.hang(name, is_placed ? std::optional(slot->second) : std::nullopt, type->getAttribute(i),
                 model_.state.contains(name) ? value.deepcopy(copies) : value, type->is_parameter(i),
                 type->is_buffer(i));
    }
  }

  /// Layers that are modules of their own are called, and attributes are read where they hang.
  void call_layers() {
    if (layout_ == Layout::Flat) return;
    for (Layer& layer : layers_) layer.path = hung_.hang_module(layer.path, layer.module);
    call_layers_in(graph());
    for (const Method& method : model_.methods) call_layers_in(*method.graph);
  }

  void call_layers_in(Graph& graph) {
    hung_.rewrite(graph);
    for (Node* node : ir::nodes_in_order(graph)) {
      if (!node->hasAttribute(kLayer)) continue;
      const torch::jit::WithInsertPoint guard(node);
      node->replaceInput(0, hung_.module_value(graph, layers_.at(node->i(kLayer)).path));
      node->removeAttribute(kLayer);
    }
  }

  Model model_;
  bool has_observers_;
  Layout layout_;
  Module root_;
  UserLayout hung_{root_};
  std::vector<Layer> layers_{};
  std::multimap<std::string, std::size_t> layers_at_{};  ///< by the user's path
  std::map<std::pair<const void*, std::string>, std::string> tensors_;
  std::map<const void*, std::string> submodules_;
  std::map<std::pair<const void*, std::string>, std::size_t> recurrent_;  ///< layers, by module and method
};

}  // namespace

Module emit(const Model& model, Layout layout) { return Emitter(model, layout).run(); }

}  // namespace tsq::torchscript
