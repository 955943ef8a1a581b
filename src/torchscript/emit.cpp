#include "torchscript/emit.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <torch/csrc/jit/api/compilation_unit.h>
#include <torch/csrc/jit/passes/constant_propagation.h>
#include <torch/csrc/jit/passes/peephole_non_tensor.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "backends/kernels/packed.h"
#include "ir/analysis.h"
#include "ir/constants.h"
#include "ir/define_method.h"
#include "ir/edit.h"
#include "ir/fx_names.h"
#include "ir/live_nodes.h"
#include "ir/methods.h"
#include "ir/own_classes.h"
#include "ir/quantize_operators.h"
#include "ir/value_numbers.h"
#include "torchscript/modules/layer_module.h"
#include "torchscript/modules/recurrent.h"
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
    for (Node* node : ir::LiveNodes(*model_.graph)) {
      if (ir::is_module_call(node)) {
        expand(node);
      } else if (ir::is_observer(node)) {
        call_observer(node);
      } else if (layout_ == Layout::OfFx && node->hasAttribute(ir::kQParamsPrefix)) {
        read_qparams_of_buffers(node);
      }
    }
    ir::eliminate_dead_code(*model_.graph);
    split_methods(model_);
    for (const std::shared_ptr<Graph>& each : graphs()) {
      ir::strip_marks(*each, /*keeps_value_numbers=*/has_observers_);
      each->inputs().at(0)->setType(ir::self_type());
      // Observers stay calls: each class is compiled once, where inlining would copy their code everywhere.
      if (!has_observers_ || each != model_.graph) inline_calls(each);
    }
    if (!has_observers_) own_classes(model_, root_._ivalue()->compilation_unit(), layout_ == Layout::OfFx);
    copy_attributes();
    call_layers();
    ir::define_method(root_, "forward", model_.graph, model_.schema);
    for (const Method& method : model_.methods)
      ir::define_method(root_, method.name, method.graph, method.schema);
    return root_;
  }

 private:
  Graph& graph() { return *model_.graph; }
  /// Of forward and of the other methods.
  std::vector<std::shared_ptr<Graph>> graphs() const {
    std::vector<std::shared_ptr<Graph>> all{model_.graph};
    for (const Method& method : model_.methods) all.push_back(method.graph);
    return all;
  }
  Value* constant(const c10::IValue& value) { return graph().insertConstant(value); }

  Value* insert(const char* kind, const std::vector<Value*>& inputs) {
    return ir::insert_before(graph().insertPoint(), kind, inputs);
  }

  /// The tensor of a layer.
  Value* tensor_attribute(const ModuleCall& call, const std::string& of_layer, const at::Tensor& tensor,
                          bool as_parameter = false) {
    if (!tensor.defined()) return constant(c10::IValue());
    const std::string name = fmt::format("{}_{}", call.path, of_layer);
    const auto key = std::make_pair(static_cast<const void*>(tensor.unsafeGetTensorImpl()), name);
    const auto [found, is_new] = tensors_.try_emplace(key);
    if (is_new) {
      found->second = unique_attribute_name(model_, name);
      model_.attributes.add({.name = found->second,
                             .type = c10::TensorType::get(),
                             .value = as_parameter ? tensor.detach().requires_grad_() : tensor,
                             .is_parameter = tensor.requires_grad() || as_parameter});
    }
    return get_attribute(found->second, c10::TensorType::get());
  }

  Value* get_attribute(const std::string& name, const c10::TypePtr& type) {
    return ir::read_attribute(graph().insertPoint(), graph().inputs().at(0), name, type);
  }

  /// The sub-module's attribute, made at its first call.
  std::string submodule(const std::string& path, const Module& module) {
    std::string& name = submodules_[module._ivalue().get()];
    if (!name.empty()) return name;
    name = unique_attribute_name(model_, path);
    model_.attributes.add(ir::submodule(name, module));
    model_.slots[name] = slot_at(path);
    return name;
  }

  Value* call_method(const std::string& method, const std::string& path, const Module& module,
                     const std::vector<Value*>& inputs, const c10::TypePtr& result) {
    Value* instance = get_attribute(submodule(path, module), module.type());
    return insert_call(instance, method, inputs, result)->output();
  }

  Node* insert_call(Value* instance, const std::string& method, std::vector<Value*> inputs,
                    const c10::TypePtr& result) {
    inputs.insert(inputs.begin(), instance);
    Node* node = ir::insert_node(graph().insertPoint(), c10::prim::CallMethod, inputs);
    node->s_(c10::attr::name, method);
    node->output()->setType(result);
    return node;
  }

  void call_observer(Node* node) {
    const torch::jit::WithInsertPoint guard(node);
    const ir::ObserverEntry& observer = ir::observer_of(model_, node);
    Value* result =
        call_method("forward", observer.name, *observer.module, {node->input(0)}, c10::TensorType::get());
    if (layout_ == Layout::OfFx && node->hasAttribute(ir::kObserverName))
      aliases_.emplace(node->s(ir::kObserverName), *observer.module);
    node->output()->replaceAllUsesWith(result);
    node->destroy();
  }

  void expand(Node* node) {
    const torch::jit::WithInsertPoint guard(node);
    const ModuleCall& call = call_of(model_, node);
    Value* result = apply(call, node->inputs().vec(), node->output()->type(), call.path);
    if (node->output()->hasDebugName()) result->setDebugName(node->output()->debugNameBase());
    ir::take_number(result, node->output());
    node->output()->replaceAllUsesWith(result);
    node->destroy();
  }

  Value* apply(const ModuleCall& call, const std::vector<Value*>& inputs, const c10::TypePtr& result,
               const std::string& path) {
    if (call.weighted) return apply_weighted(call, inputs.front(), path);
    if (!call.members.empty()) return apply_fused(call, inputs, result);
    if (!call.recurrent_qparams.empty()) return apply_recurrent(call, inputs, result);
    if (call.module) return call_method(call.method, path, *call.module, inputs, result);
    if (call.type.name == "torch.nn.Tanh") return insert("aten::tanh", {inputs.front()});
    if (call.type.name == "torch.nn.LeakyReLU")
      return insert("aten::leaky_relu", {inputs.front(), constant(call.constants.front())});
    return insert("aten::relu", {inputs.front()});
  }

  Value* apply_recurrent(const ModuleCall& call, const std::vector<Value*>& inputs,
                         const c10::TypePtr& result) {
    const auto key = std::make_pair(static_cast<const void*>(call.module->_ivalue().get()), call.method);
    const auto [found, is_new] = recurrent_.try_emplace(key, layers_.size());
    if (is_new) {
      layers_.push_back(
          {.path = call.path, .module = rounded_recurrent(call, call.recurrent_qparams), .call = &call});
    }
    if (layout_ != Layout::Flat) return call_layer(found->second, inputs, result);
    return call_method("forward", call.path, layers_.at(found->second).module, inputs, result);
  }

  /// The members in sequence; a second input is the other addend, added to the root's output.
  Value* apply_fused(const ModuleCall& call, const std::vector<Value*>& inputs, const c10::TypePtr& result) {
    const ModuleCall& root = call.members.front();
    Value* value =
        apply(root, {inputs.front()}, result, layout_ == Layout::OfFx ? root.path + ".0" : root.path);
    if (inputs.size() == 2) value = insert("aten::add", {value, inputs[1], constant(int64_t{1})});
    for (std::size_t i = 1; i < call.members.size(); ++i)
      value = apply(call.members[i], {value}, result, call.members[i].path);
    return value;
  }

  Value* apply_weighted(const ModuleCall& call, Value* input, const std::string& path) {
    if (const std::optional<std::size_t> layer = layer_of(call, path))
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
    Node* node = insert_call(constant(c10::IValue()), "forward", inputs, result);
    node->i_(kLayer, static_cast<int64_t>(layer));
    return node->output();
  }

  /// Out of a frozen file, a weight is a parameter while it is observed.
  bool weight_is_parameter(const Weighted& weighted) const { return weighted.was_frozen && has_observers_; }

  /// The module at a layer's own path; none where the layer is operators of the graph.
  std::optional<std::size_t> layer_of(const ModuleCall& call, const std::string& path) {
    if (layout_ == Layout::Flat || path.empty()) return std::nullopt;
    const auto [begin, end] = layers_at_.equal_range(path);
    for (auto known = begin; known != end; ++known) {
      if (is_same_layer(*layers_.at(known->second).call, call)) return known->second;
    }
    layers_at_.emplace(path, layers_.size());
    layers_.push_back({.path = path,
                       .module = layer_module(call, weight_is_parameter(*call.weighted),
                                              layout_ == Layout::OfFx, root_._ivalue()->compilation_unit()),
                       .call = &call});
    return layers_.size() - 1;
  }

  /// quantize_per_tensor(x, 0.1, 0, dtype)   →   quantize_per_tensor(x, self.fc_scale_0,
  /// self.fc_zero_point_0, dtype)
  void read_qparams_of_buffers(Node* node) {
    std::string prefix = node->s(ir::kQParamsPrefix);
    std::ranges::replace(prefix, '.', '_');
    at::Tensor scale;
    at::Tensor zero_point;
    if (node->kind() == ir::kQuantizePerChannel) {
      scale = ir::held_tensor(model_, node->input(1));
      zero_point = ir::held_tensor(model_, node->input(2));
    } else if (const auto number = held_number(node->input(1))) {
      scale = at::scalar_tensor(*number, at::kFloat);
      zero_point = at::scalar_tensor(ir::whole_number_constant(node->input(2)).value(), at::kLong);
    }
    if (!scale.defined() || !zero_point.defined()) return;
    const torch::jit::WithInsertPoint guard(node);
    node->replaceInput(1, numbered_buffer(prefix + "_scale", scale));
    node->replaceInput(2, numbered_buffer(prefix + "_zero_point", zero_point));
  }

  std::optional<double> held_number(const Value* value) const {
    const auto held = ir::held_value(model_, value);
    return held && held->isDouble() ? std::optional(held->toDouble()) : std::nullopt;
  }

  /// Named as get_new_attr_name_with_prefix does it.
  Value* numbered_buffer(const std::string& name, const at::Tensor& value) {
    std::string numbered;
    do {
      numbered = fmt::format("{}_{}", name, numbers_[name]++);
    } while (model_.attributes.hasattr(numbered));
    model_.attributes.add(
        {.name = numbered, .type = c10::TensorType::get(), .value = value.clone(), .is_buffer = true});
    return get_attribute(numbered, c10::TensorType::get());
  }

  /// Leaf modules are inlined, `training` is false, and what depends on that alone is folded.
  static void inline_calls(std::shared_ptr<Graph> graph) {
    ir::inline_calls(*graph);
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
    for (const std::shared_ptr<Graph>& each : graphs()) collect_attributes(*each, used);
    for (const ir::ObserverEntry& observer : model_.observers) {
      const auto found =
          observer.module ? submodules_.find(observer.module->_ivalue().get()) : submodules_.end();
      if (found == submodules_.end() || used.erase(found->second) == 0) continue;
      hung_.hang(model_.attributes.at(found->second), std::nullopt);
    }
    for (const auto& [name, module] : aliases_) hung_.hang(ir::submodule(name, module), std::nullopt);
    c10::IValue::HashIdentityIValueMap copies;
    for (const ir::Attribute& held : model_.attributes) {
      if (!used.contains(held.name)) continue;
      ir::Attribute each = held;
      const auto slot = model_.slots.find(each.name);
      const bool is_placed = layout_ != Layout::Flat && slot != model_.slots.end();
      if (model_.state.contains(each.name)) each.value = each.value.deepcopy(copies);
      hung_.hang(std::move(each), is_placed ? std::optional(slot->second) : std::nullopt);
    }
  }

  /// Layers that are modules of their own are called, and attributes are read where they hang.
  void call_layers() {
    if (layout_ == Layout::Flat) return;
    for (Layer& layer : layers_) layer.path = hung_.hang_module(layer.path, layer.module);
    for (const std::shared_ptr<Graph>& each : graphs()) call_layers_in(*each);
  }

  void call_layers_in(Graph& graph) {
    hung_.rewrite(graph);
    for (Node* node : ir::nodes_in_order(graph)) {
      if (!node->hasAttribute(kLayer)) continue;
      node->replaceInput(0, hung_.module_value(graph, layers_.at(node->i(kLayer)).path));
      node->removeAttribute(kLayer);
    }
    hung_.insert_reads(graph);
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
  std::map<std::string, Module> aliases_{};                               ///< further names of observers
  std::map<std::string, int> numbers_{};                                  ///< the next of buffers, by name
  std::map<std::pair<const void*, std::string>, std::size_t> recurrent_;  ///< layers, by module and method
};

}  // namespace

Module emit(const Model& model, Layout layout) { return Emitter(model, layout).run(); }

}  // namespace tsq::torchscript
