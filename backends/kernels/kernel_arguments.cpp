#include "backends/kernels/kernel_arguments.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/ir/constants.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "backends/kernels/first_row.h"
#include "ir/edit.h"
#include "observers/observer_module.h"
#include "operators/arguments.h"
#include "operators/weighted.h"

namespace tsq::kernels {
namespace {

using ir::ModuleCall;
using ir::Node;
using ir::Value;
using Arguments = std::optional<std::vector<KernelArgument>>;

KernelArgument constant(const c10::IValue& value) { return {.constant = value}; }

c10::IValue as_int_list(const c10::IValue& value) {
  if (value.isIntList()) return value;
  std::vector<int64_t> list;
  if (value.isTuple()) {
    for (const c10::IValue& element : value.toTupleRef().elements()) list.push_back(element.toInt());
  }
  return list;
}

/// The parameters of a module, as constants and attributes.
struct ModuleParameters {
  const ModuleCall& call;

  [[nodiscard]] std::optional<KernelArgument> number(const char* name, c10::Symbol aten) const {
    const auto value = operators::module_constant(*call.module, name, aten, name);
    return value && !value->isNone() ? std::optional(constant(*value)) : std::nullopt;
  }
  [[nodiscard]] at::Tensor tensor_or_none(const char* name) const {
    if (!call.module->hasattr(name) || !call.module->attr(name).isTensor()) return {};
    return call.module->attr(name).toTensor().detach();
  }
  [[nodiscard]] KernelArgument held(const std::string& name, const at::Tensor& tensor) const {
    return {.constant = tensor, .attribute = call.path + "_" + name};
  }
  [[nodiscard]] KernelArgument tensor(const char* name) const {
    const at::Tensor value = tensor_or_none(name);
    return value.defined() ? held(name, value) : constant(c10::IValue());
  }
};

/// LibTorch's kernel multiplies positive values by the code of 1.0 in the slopes' range, and is wrong
/// everywhere when 1.0 lies outside of it: then the range is observed with 1.0 among the slopes.
std::optional<at::Tensor> quantized_slopes(const ObserverSpec& spec, const at::Tensor& weight) {
  constexpr int64_t kLargestCode = 255;
  QParams qparams = observe_once(spec, weight);
  if (qparams.qscheme != c10::QScheme::PER_TENSOR_AFFINE) return std::nullopt;
  const auto code_of_one = [&] {
    return std::llround(1.0 / qparams.scale.item<float>()) + qparams.zero_point.item<int64_t>();
  };
  if (code_of_one() > kLargestCode)
    qparams = observe_once(spec, at::cat({weight.flatten(), at::ones({1}, weight.options())}));
  if (code_of_one() > kLargestCode) return std::nullopt;
  return at::quantize_per_tensor(weight, qparams.scale.item<float>(), qparams.zero_point.item<int64_t>(),
                                 c10::ScalarType::QUInt8);
}

/// nnq.PReLU.from_reference: slopes quantized with a fresh weight observer.
Arguments prelu_arguments(const ir::Model& model, const Node* op, const ModuleParameters& module) {
  const ir::NodeRecord* record = ir::record_of(model, op);
  if (record == nullptr || !record->lookup.qconfig) return std::nullopt;
  const auto quantized = quantized_slopes(record->lookup.qconfig->weight, module.tensor_or_none("weight"));
  if (!quantized) return std::nullopt;
  return {{module.held("weight", *quantized)}};
}

/// The kernel takes no batch norm without weight and bias: ones and zeros say the same.
Arguments batch_norm_arguments(const ModuleParameters& module) {
  const auto bn = operators::batch_norm_parameters(*module.call.module);
  if (!bn) return std::nullopt;
  const auto given = [&](const char* name, const at::Tensor& tensor, const at::Tensor& neutral) {
    return module.held(name, (tensor.defined() ? tensor : neutral).detach());
  };
  return {{given("weight", bn->weight, at::ones_like(bn->running_mean)),
           given("bias", bn->bias, at::zeros_like(bn->running_mean)),
           given("running_mean", bn->running_mean, bn->running_mean),
           given("running_var", bn->running_var, bn->running_var), constant(bn->eps)}};
}

/// Kernels with a number beside scale and zero point, and its name in a module or function.
struct NumberArgument {
  std::string_view kernel;
  const char* name;
  c10::Symbol aten;
};
constexpr std::array kNumberArguments{
    NumberArgument{"quantized::elu", "alpha", c10::aten::elu},
    NumberArgument{"quantized::leaky_relu", "negative_slope", c10::aten::leaky_relu},
    NumberArgument{"quantized::softmax", "dim", c10::aten::softmax},
};

const NumberArgument* number_argument(std::string_view kernel) {
  return first_row(kNumberArguments, [&](const NumberArgument& row) { return row.kernel == kernel; });
}

Arguments with_number(std::string_view kernel, const std::optional<KernelArgument>& number) {
  if (!number) return std::nullopt;
  if (kernel == "quantized::elu") return {{*number, constant(int64_t{1}), constant(int64_t{1})}};
  if (kernel == "quantized::softmax") return {{*number}};
  return {{*number, constant(false)}};
}

Arguments module_arguments(std::string_view kernel, const ir::Model& model, const Node* op) {
  const ModuleCall& call = ir::root_of(ir::call_of(model, op));
  if (!call.module) return std::nullopt;
  const ModuleParameters module{call};
  if (const auto* row = number_argument(kernel))
    return with_number(kernel, module.number(row->name, row->aten));
  if (kernel == "quantized::prelu") return prelu_arguments(model, op, module);
  if (kernel == "quantized::layer_norm") {
    const auto shape = operators::module_constant(*call.module, "normalized_shape", c10::aten::layer_norm,
                                                  "normalized_shape");
    const auto eps = module.number("eps", c10::aten::layer_norm);
    if (!shape || !eps) return std::nullopt;
    return {{constant(as_int_list(*shape)), module.tensor("weight"), module.tensor("bias"), *eps}};
  }
  if (kernel == "quantized::instance_norm") {
    const auto eps = module.number("eps", c10::aten::instance_norm);
    // The kernel normalises by the input's own statistics.
    if (!eps || module.tensor_or_none("running_mean").defined()) return std::nullopt;
    return {{module.tensor("weight"), module.tensor("bias"), *eps}};
  }
  return batch_norm_arguments(module);
}

/// The kernels of functions that take the function's own arguments, by their names, and then scale and zero
/// point.
struct FunctionArguments {
  std::string_view kernel;
  std::array<const char*, 4> names;  ///< null: no more
};
constexpr std::array kFunctionArguments{
    FunctionArguments{"quantized::layer_norm", {"normalized_shape", "weight", "bias", "eps"}},
    FunctionArguments{"quantized::instance_norm", {"weight", "bias", "eps", nullptr}},
    FunctionArguments{"quantized::group_norm", {"num_groups", "weight", "bias", "eps"}},
};

std::optional<KernelArgument> argument_of(const Node* op, const char* name) {
  Value* value = operators::argument_named(op, name);
  return value == nullptr ? std::nullopt : std::optional(KernelArgument{.value = value});
}

Arguments function_arguments(std::string_view kernel, const ir::Model& model, const Node* op) {
  if (const auto* row = number_argument(kernel)) return with_number(kernel, argument_of(op, row->name));
  const auto input_stats = operators::argument_constant(model, op, "use_input_stats");
  if (input_stats && !input_stats->toBool()) return std::nullopt;
  const auto* row =
      first_row(kFunctionArguments, [&](const FunctionArguments& each) { return each.kernel == kernel; });
  if (row == nullptr) return std::nullopt;
  std::vector<KernelArgument> arguments;
  for (const char* name : row->names) {
    if (name == nullptr) continue;
    const auto argument = argument_of(op, name);
    if (!argument) return std::nullopt;
    arguments.push_back(*argument);
  }
  return arguments;
}

}  // namespace

std::string kernel_of_call(std::string_view kernel, const ir::Model& model, const Node* op) {
  std::string name(kernel);
  if (!ir::is_module_call(op)) return name;
  const ModuleCall& call = ir::call_of(model, op);
  const ModuleCall& root = ir::root_of(call);
  const auto rank = root.has_unknown_rank ? name.find("2d") : std::string::npos;
  if (rank != std::string::npos) name.erase(rank, 2);
  return name;
}

Arguments kernel_arguments(std::string_view kernel, const ir::Model& model, const Node* op) {
  if (kernel == "quantized::hardswish") return std::vector<KernelArgument>{};
  return ir::is_module_call(op) ? module_arguments(kernel, model, op) : function_arguments(kernel, model, op);
}

std::vector<Value*> kernel_inputs(std::string_view kernel, const KernelSite& site) {
  std::vector<Value*> inputs{site.input};
  const Arguments arguments = kernel_arguments(kernel, site.model, site.op);
  for (const KernelArgument& argument : arguments.value()) {
    inputs.push_back(argument.value != nullptr ? argument.value
                     : argument.attribute.empty()
                         ? ir::constant_before(site.quantize, argument.constant)
                         : ir::attribute_before(site.model, site.quantize, argument.attribute,
                                                argument.constant.toTensor()));
  }
  const auto place = kernel == "quantized::elu" ? inputs.begin() + 1 : inputs.end();
  inputs.insert(place, {site.quantize->input(1), site.quantize->input(2)});
  return inputs;
}

}  // namespace tsq::kernels
