#include "torchscript/emit.h"

#include <ATen/ATen.h>
#include <torch/csrc/jit/api/compilation_unit.h>
#include <torch/csrc/jit/passes/constant_propagation.h>
#include <torch/csrc/jit/passes/inliner.h>
#include <torch/csrc/jit/passes/peephole_non_tensor.h>

#include <map>
#include <set>

#include "backends/kernels/packed.h"
#include "ir/define_method.h"
#include "ir/methods.h"
#include "ir/own_classes.h"
#include "ir/quantize_operators.h"
#include "operators/convolution_padding.h"
#include "operators/weighted.h"
#include "torchscript/recurrent.h"

namespace tsq::torchscript {
namespace {

using ir::Graph;
using ir::GraphModule;
using ir::Method;
using ir::ModuleCall;
using ir::Node;
using ir::Value;
using ir::Weighted;

using torch::jit::Module;

class Emitter {
 public:
  Emitter(const GraphModule& source, std::span<const Module> observers)
      : gm_(source.copy()),
        observers_(observers),
        root_("__torch__.tsq.GraphModule", std::make_shared<torch::jit::CompilationUnit>()) {}

  Module run() {
    join_methods(gm_);
    for (Node* node : ir::nodes_in_order(*gm_.graph)) {
      if (ir::is_module_call(node)) {
        expand(node);
      } else if (ir::is_observer(node)) {
        call_observer(node);
      }
    }
    ir::eliminate_dead_code(*gm_.graph);
    split_methods(gm_);
    ir::strip_marks(*gm_.graph);
    for (Method& method : gm_.methods) ir::strip_marks(*method.graph);
    self()->setType(gm_.attributes.type());
    // Observers stay calls: each class is compiled once, where inlining would copy their code to every place.
    if (observers_.empty()) inline_calls(gm_.graph);
    for (Method& method : gm_.methods) {
      method.graph->inputs().at(0)->setType(gm_.attributes.type());
      inline_calls(method.graph);
    }
    if (observers_.empty()) own_classes(gm_, root_._ivalue()->compilation_unit());
    copy_attributes();
    ir::define_method(root_, "forward", gm_.graph, gm_.schema);
    for (const Method& method : gm_.methods)
      ir::define_method(root_, method.name, method.graph, method.schema);
    return root_;
  }

 private:
  Value* self() { return gm_.graph->inputs().at(0); }
  Graph& graph() { return *gm_.graph; }
  Value* constant(const c10::IValue& value) { return graph().insertConstant(value); }

  Value* insert(const char* kind, std::vector<Value*> inputs) {
    Node* node = graph().create(c10::Symbol::fromQualString(kind), inputs, 1);
    graph().insertNode(node);
    return node->output();
  }

  Value* tensor_attribute(const std::string& name, const at::Tensor& tensor, bool as_parameter = false) {
    if (!tensor.defined()) return constant(c10::IValue());
    const auto key = std::make_pair(static_cast<const void*>(tensor.unsafeGetTensorImpl()), name);
    auto found = tensors_.find(key);
    if (found == tensors_.end()) {
      const std::string unique = unique_attribute_name(gm_, name);
      if (tensor.requires_grad() || as_parameter) {
        gm_.attributes.register_parameter(unique, as_parameter ? tensor.detach().requires_grad_() : tensor,
                                          /*is_buffer=*/false);
      } else {
        gm_.attributes.register_attribute(unique, c10::TensorType::get(), tensor);
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
      const std::string name = unique_attribute_name(gm_, path);
      gm_.attributes.register_attribute(name, module.type(), module._ivalue());
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
    const std::size_t index = ir::observer_index(node);
    Value* result = node->input(0);
    if (index < observers_.size()) {
      result = call_method("forward", gm_.observers[index].name, observers_[index], {node->input(0)},
                           c10::TensorType::get());
    }
    node->output()->replaceAllUsesWith(result);
    node->destroy();
  }

  void expand(Node* node) {
    const torch::jit::WithInsertPoint guard(node);
    const ModuleCall call = call_of(gm_, node);
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
    if (found == recurrent_.end())
      found = recurrent_.emplace(key, torchscript::rounded_recurrent(call, call.recurrent_qparams)).first;
    return call_method("forward", call.path, found->second, inputs, result);
  }

  /// The members in sequence; a second input is the other addend, added to the root's output.
  Value* apply_fused(const ModuleCall& call, const std::vector<Value*>& inputs, const c10::TypePtr& result) {
    Value* value = apply(call.members.front(), {inputs.front()}, result);
    if (inputs.size() == 2) value = insert("aten::add", {value, inputs[1], constant(int64_t{1})});
    for (std::size_t i = 1; i < call.members.size(); ++i) value = apply(call.members[i], {value}, result);
    return value;
  }

  Value* weight_of(const ModuleCall& call) {
    const Weighted& weighted = *call.weighted;
    const bool as_parameter = weighted.was_frozen && !observers_.empty();
    Value* weight = tensor_attribute(call.path + "_weight", weighted.weight, as_parameter);
    // FX's reference modules keep weights that become float16 as they are: packing rounds them.
    if (!weighted.weight_qparams || weighted.weight_qparams->dtype == c10::ScalarType::Half) return weight;
    const QParams& qparams = *weighted.weight_qparams;
    Value* dtype = constant(static_cast<int64_t>(qparams.dtype));
    if (qparams.qscheme == c10::QScheme::PER_TENSOR_AFFINE) {
      Value* scale = insert_double(gm_, call.path + "_weight_scale", qparams.scale.item<float>());
      return insert("aten::dequantize",
                    {insert("aten::quantize_per_tensor",
                            {weight, scale, constant(qparams.zero_point.item<int64_t>()), dtype})});
    }
    if (weighted.group_size > 0) return grouped_weight(call, weight);
    Value* scale = tensor_attribute(call.path + "_weight_scale", qparams.scale);
    Value* zero_point = tensor_attribute(call.path + "_weight_zero_point", qparams.zero_point);
    return insert("aten::dequantize", {insert("aten::quantize_per_channel",
                                              {weight, scale, zero_point, constant(qparams.axis), dtype})});
  }

  /// The columns in groups, as rows, are rounded each by its own scale.
  Value* grouped_weight(const ModuleCall& call, Value* weight) {
    const Weighted& weighted = *call.weighted;
    const QParams& qparams = *weighted.weight_qparams;
    const int64_t rows = weighted.weight.size(0);
    const int64_t columns = weighted.weight.size(1);
    const int64_t padded = qparams.scale.size(1) * weighted.group_size;
    Value* scale = tensor_attribute(call.path + "_weight_scale", qparams.scale.reshape({-1}));
    Value* zero_point = tensor_attribute(call.path + "_weight_zero_point", qparams.zero_point.reshape({-1}));
    const auto sizes = [&](std::vector<int64_t> values) { return constant(std::move(values)); };
    Value* filled =
        insert("aten::constant_pad_nd", {weight, sizes({0, padded - columns}), constant(int64_t{0})});
    Value* groups = insert("aten::reshape", {filled, sizes({-1, weighted.group_size})});
    Value* dtype = constant(static_cast<int64_t>(c10::ScalarType::QUInt8));
    Value* quantized =
        insert("aten::quantize_per_channel", {groups, scale, zero_point, constant(int64_t{0}), dtype});
    Value* rounded =
        insert("aten::reshape", {insert("aten::dequantize", {quantized}), sizes({rows, padded})});
    return insert("aten::narrow", {rounded, constant(int64_t{1}), constant(int64_t{0}), constant(columns)});
  }

  Value* apply_weighted(const ModuleCall& call, Value* input) {
    const Weighted& w = *call.weighted;
    Value* weight = weight_of(call);
    Value* bias = tensor_attribute(call.path + "_bias", w.bias);
    if (w.stride.empty()) return insert("aten::linear", {input, weight, bias});
    const std::string dims = std::to_string(w.stride.size());
    if (operators::is_transposed(call.type)) {
      return insert(("aten::conv_transpose" + dims + "d").c_str(),
                    {input, weight, bias, constant(w.stride), constant(w.padding), constant(w.output_padding),
                     constant(w.groups), constant(w.dilation)});
    }
    const std::string kind = "aten::conv" + dims + "d";
    std::vector<int64_t> padding = w.padding;
    if (w.padding_mode != "zeros") {
      input = insert("aten::pad", {input, constant(operators::explicit_padding(w)), constant(w.padding_mode),
                                   constant(c10::IValue())});
      padding.assign(w.stride.size(), 0);
    } else if (!w.padding_name.empty()) {
      return insert(kind.c_str(), {input, weight, bias, constant(w.stride), constant(w.padding_name),
                                   constant(w.dilation), constant(w.groups)});
    }
    return insert(kind.c_str(), {input, weight, bias, constant(w.stride), constant(padding),
                                 constant(w.dilation), constant(w.groups)});
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

  /// Each module that is made gets a state of its own: running it changes no other.
  void copy_attributes() {
    std::set<std::string> used;
    collect_attributes(graph(), used);
    for (const Method& method : gm_.methods) collect_attributes(*method.graph, used);
    c10::IValue::HashIdentityIValueMap copies;
    const auto type = gm_.attributes.type();
    for (std::size_t i = 0; i < type->numAttributes(); ++i) {
      const std::string& name = type->getAttributeName(i);
      if (!used.contains(name)) continue;
      const c10::IValue value = gm_.attributes.attr(name);
      root_.register_attribute(name, type->getAttribute(i),
                               gm_.state.contains(name) ? value.deepcopy(copies) : value,
                               type->is_parameter(i), type->is_buffer(i));
    }
  }

  GraphModule gm_;
  std::span<const Module> observers_;
  Module root_;
  std::map<std::pair<const void*, std::string>, std::string> tensors_;
  std::map<const void*, std::string> submodules_;
  std::map<std::pair<const void*, std::string>, Module> recurrent_;  ///< rounded, by module and method
};

}  // namespace

Module emit(const GraphModule& gm, std::span<const Module> observers) { return Emitter(gm, observers).run(); }

}  // namespace tsq::torchscript
