#include "torchscript/modules/layer_module.h"

#include <ATen/ATen.h>

#include "ir/analysis.h"
#include "ir/define_method.h"
#include "ir/edit.h"
#include "operators/images/convolution_padding.h"
#include "operators/weighted.h"
#include "torchscript/modules/written_module.h"

namespace tsq::torchscript {
namespace {

using ir::Graph;
using ir::ModuleCall;
using ir::Value;
using ir::Weighted;
using torch::jit::Module;

class LayerWriter {
 public:
  LayerWriter(Graph& graph, const ModuleCall& call, const LayerValues& values)
      : graph_(graph), call_(call), weighted_(*call.weighted), values_(values) {}

  Value* run() {
    const Weighted& w = weighted_;
    Value* weight = weight_of();
    Value* input = values_.input;
    if (w.stride.empty()) return insert("aten::linear", {input, weight, values_.bias});
    const std::string dims = std::to_string(w.stride.size());
    if (operators::is_transposed(call_.type)) {
      return insert(("aten::conv_transpose" + dims + "d").c_str(),
                    {input, weight, values_.bias, constant(w.stride), constant(w.padding),
                     constant(w.output_padding), constant(w.groups), constant(w.dilation)});
    }
    Value* padding = w.padding_name.empty() ? constant(w.padding) : constant(w.padding_name);
    if (w.padding_mode != "zeros") {
      input = insert("aten::pad", {input, constant(operators::explicit_padding(w)), constant(w.padding_mode),
                                   constant(c10::IValue())});
      padding = constant(std::vector<int64_t>(w.stride.size(), 0));
    }
    return insert(("aten::conv" + dims + "d").c_str(), {input, weight, values_.bias, constant(w.stride),
                                                        padding, constant(w.dilation), constant(w.groups)});
  }

 private:
  Value* constant(const c10::IValue& value) { return graph_.insertConstant(value); }

  Value* insert(const char* kind, const std::vector<Value*>& inputs) {
    return ir::insert_before(graph_.insertPoint(), kind, inputs);
  }

  Value* weight_of() {
    if (values_.weight_scale == nullptr) return values_.weight;
    if (weighted_.weight_qparams->qscheme == c10::QScheme::PER_TENSOR_AFFINE) {
      return insert("aten::dequantize",
                    {insert("aten::quantize_per_tensor", {values_.weight, values_.weight_scale,
                                                          values_.weight_zero_point, values_.weight_dtype})});
    }
    if (weighted_.group_size > 0) return weight_in_groups();
    return insert("aten::dequantize", {per_channel(values_.weight, values_.weight_axis)});
  }

  Value* per_channel(Value* weight, Value* axis) {
    return insert("aten::quantize_per_channel",
                  {weight, values_.weight_scale, values_.weight_zero_point, axis, values_.weight_dtype});
  }

  /// The columns in groups, as rows, are rounded each by its own scale.
  Value* weight_in_groups() {
    const int64_t rows = weighted_.weight.size(0);
    const int64_t columns = weighted_.weight.size(1);
    const int64_t padded = weighted_.weight_qparams->scale.size(1) * weighted_.group_size;
    const auto sizes = [&](std::vector<int64_t> values) { return constant(std::move(values)); };
    Value* filled =
        insert("aten::constant_pad_nd", {values_.weight, sizes({0, padded - columns}), constant(int64_t{0})});
    Value* groups = insert("aten::reshape", {filled, sizes({-1, weighted_.group_size})});
    Value* quantized = per_channel(groups, constant(int64_t{0}));
    Value* rounded =
        insert("aten::reshape", {insert("aten::dequantize", {quantized}), sizes({rows, padded})});
    return insert("aten::narrow", {rounded, constant(int64_t{1}), constant(int64_t{0}), constant(columns)});
  }

  Graph& graph_;
  const ModuleCall& call_;
  const Weighted& weighted_;
  const LayerValues& values_;
};

bool is_same_tensor(const at::Tensor& one, const at::Tensor& other) {
  if (!one.defined() || !other.defined()) return one.defined() == other.defined();
  return one.is_same(other) || (one.dtype() == other.dtype() && at::equal(one, other));
}

bool is_same_rounding(const Weighted& one, const Weighted& other) {
  if (!one.weight_qparams || !other.weight_qparams)
    return one.weight_qparams.has_value() == other.weight_qparams.has_value();
  return one.group_size == other.group_size && one.weight_qparams->dtype == other.weight_qparams->dtype &&
         one.weight_qparams->qscheme == other.weight_qparams->qscheme &&
         one.weight_qparams->axis == other.weight_qparams->axis &&
         is_same_tensor(one.weight_qparams->scale, other.weight_qparams->scale) &&
         is_same_tensor(one.weight_qparams->zero_point, other.weight_qparams->zero_point);
}

/// A module under construction, and the graph of its forward.
class LayerModule {
 public:
  LayerModule(const ModuleCall& call, const std::shared_ptr<torch::jit::CompilationUnit>& unit)
      : call_(call),
        module_(c10::QualifiedName("__torch__.tsq." + class_name(call.type)), unit, /*shouldMangle=*/true),
        graph_(std::make_shared<Graph>()),
        self_(graph_->addInput("self")) {}

  Module run(bool weight_is_parameter, bool axis_is_buffer) {
    const Weighted& w = *call_.weighted;
    LayerValues values{.input = graph_->addInput("input"),
                       .weight = tensor("weight", w.weight, weight_is_parameter),
                       .bias = tensor("bias", w.bias)};
    if (has_rounded_weight(call_)) {
      const QParams& qparams = *w.weight_qparams;
      values.weight_scale = tensor("weight_scale", flat_qparam(w, qparams.scale));
      values.weight_zero_point = tensor("weight_zero_point", flat_qparam(w, qparams.zero_point));
      values.weight_axis = number(axis_is_buffer ? "weight_axis_int" : "weight_axis", qparams.axis);
      if (axis_is_buffer) module_.register_buffer("weight_axis", at::scalar_tensor(qparams.axis, at::kLong));
      values.weight_dtype = number("weight_dtype", static_cast<int64_t>(qparams.dtype));
    }
    graph_->registerOutput(write_layer(*graph_, call_, values));
    ir::eliminate_dead_code(*graph_);
    ir::define_method(module_, "forward", graph_,
                      {"forward", "", {c10::Argument("self"), c10::Argument("input")}, {c10::Argument("")}});
    return module_;
  }

 private:
  Value* read(const std::string& name, const c10::TypePtr& type) {
    return ir::read_attribute(graph_->insertPoint(), self_, name, type);
  }

  Value* tensor(const std::string& name, const at::Tensor& value, bool is_parameter = false) {
    if (!value.defined()) return graph_->insertConstant(c10::IValue());
    if (is_parameter || value.requires_grad()) {
      module_.register_parameter(name, is_parameter ? value.detach().requires_grad_() : value,
                                 /*is_buffer=*/false);
    } else {
      module_.register_buffer(name, value);
    }
    return read(name, c10::TensorType::get());
  }

  Value* number(const std::string& name, int64_t value) {
    module_.register_attribute(name, c10::IntType::get(), value);
    return read(name, c10::IntType::get());
  }

  const ModuleCall& call_;
  Module module_;
  std::shared_ptr<Graph> graph_;
  Value* self_;
};

}  // namespace

bool has_rounded_weight(const ModuleCall& call) {
  const auto& qparams = call.weighted->weight_qparams;
  return qparams && qparams->dtype != c10::ScalarType::Half;
}

at::Tensor flat_qparam(const Weighted& weighted, const at::Tensor& qparam) {
  return weighted.group_size > 0 ? qparam.reshape({-1}) : qparam;
}

Value* write_layer(Graph& graph, const ModuleCall& call, const LayerValues& values) {
  return LayerWriter(graph, call, values).run();
}

Module layer_module(const ModuleCall& call, bool weight_is_parameter, bool axis_is_buffer,
                    const std::shared_ptr<torch::jit::CompilationUnit>& unit) {
  return LayerModule(call, unit).run(weight_is_parameter, axis_is_buffer);
}

bool is_same_layer(const ModuleCall& one, const ModuleCall& other) {
  const Weighted& a = *one.weighted;
  const Weighted& b = *other.weighted;
  return one.type == other.type && is_same_tensor(a.weight, b.weight) && is_same_tensor(a.bias, b.bias) &&
         is_same_rounding(a, b) && a.stride == b.stride && a.padding == b.padding &&
         a.output_padding == b.output_padding && a.dilation == b.dilation && a.groups == b.groups &&
         a.padding_mode == b.padding_mode && a.padding_name == b.padding_name;
}

}  // namespace tsq::torchscript
