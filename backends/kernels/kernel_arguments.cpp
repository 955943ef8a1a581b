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
using Inputs = std::optional<std::vector<Value*>>;

Value* constant(const KernelSite& site, const c10::IValue& value) {
  return ir::constant_before(site.quantize, value);
}

Value* attribute(const KernelSite& site, const at::Tensor& tensor, const std::string& name) {
  return ir::attribute_before(site.model, site.quantize, name, tensor);
}

std::vector<Value*> with_qparams(const KernelSite& site, std::vector<Value*> inputs) {
  inputs.insert(inputs.end(), {site.quantize->input(1), site.quantize->input(2)});
  return inputs;
}

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
  const KernelSite& site;
  const ModuleCall& call;

  [[nodiscard]] Value* number(const char* name, c10::Symbol aten) const {
    const auto value = operators::module_constant(*call.module, name, aten, name);
    return value && !value->isNone() ? constant(site, *value) : nullptr;
  }
  [[nodiscard]] at::Tensor tensor_or_none(const char* name) const {
    if (!call.module->hasattr(name) || !call.module->attr(name).isTensor()) return {};
    return call.module->attr(name).toTensor().detach();
  }
  [[nodiscard]] Value* tensor(const char* name) const {
    const at::Tensor value = tensor_or_none(name);
    return value.defined() ? attribute(site, value, call.path + "_" + name) : constant(site, c10::IValue());
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
Inputs prelu_inputs(const KernelSite& site, const ModuleParameters& module) {
  const ir::NodeRecord* record = ir::record_of(site.model, site.op);
  if (record == nullptr || !record->lookup.qconfig) return std::nullopt;
  const auto quantized = quantized_slopes(record->lookup.qconfig->weight, module.tensor_or_none("weight"));
  if (!quantized) return std::nullopt;
  return with_qparams(site, {site.input, attribute(site, *quantized, module.call.path + "_weight")});
}

/// The kernel takes no batch norm without weight and bias: ones and zeros say the same.
Inputs batch_norm_inputs(const KernelSite& site, const ModuleParameters& module) {
  const auto bn = operators::batch_norm_parameters(*module.call.module);
  if (!bn) return std::nullopt;
  const auto given = [&](const char* name, const at::Tensor& tensor, const at::Tensor& neutral) {
    return attribute(site, (tensor.defined() ? tensor : neutral).detach(), module.call.path + "_" + name);
  };
  return with_qparams(site,
                      {site.input, given("weight", bn->weight, at::ones_like(bn->running_mean)),
                       given("bias", bn->bias, at::zeros_like(bn->running_mean)),
                       given("running_mean", bn->running_mean, bn->running_mean),
                       given("running_var", bn->running_var, bn->running_var), constant(site, bn->eps)});
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

Inputs with_number(std::string_view kernel, const KernelSite& site, Value* number) {
  if (number == nullptr) return std::nullopt;
  if (kernel == "quantized::elu") {
    return std::vector<Value*>{site.input, site.quantize->input(1),    site.quantize->input(2),
                               number,     constant(site, int64_t{1}), constant(site, int64_t{1})};
  }
  if (kernel == "quantized::softmax") return with_qparams(site, {site.input, number});
  return with_qparams(site, {site.input, number, constant(site, false)});
}

Inputs module_kernel_inputs(std::string_view kernel, const KernelSite& site, const ModuleCall& call) {
  if (!call.module) return std::nullopt;
  const ModuleParameters module{site, call};
  if (const auto* row = number_argument(kernel))
    return with_number(kernel, site, module.number(row->name, row->aten));
  if (kernel == "quantized::prelu") return prelu_inputs(site, module);
  if (kernel == "quantized::layer_norm") {
    const auto shape = operators::module_constant(*call.module, "normalized_shape", c10::aten::layer_norm,
                                                  "normalized_shape");
    Value* eps = module.number("eps", c10::aten::layer_norm);
    if (!shape || eps == nullptr) return std::nullopt;
    return with_qparams(site, {site.input, constant(site, as_int_list(*shape)), module.tensor("weight"),
                               module.tensor("bias"), eps});
  }
  if (kernel == "quantized::instance_norm") {
    Value* eps = module.number("eps", c10::aten::instance_norm);
    // The kernel normalises by the input's own statistics.
    if (eps == nullptr || module.tensor_or_none("running_mean").defined()) return std::nullopt;
    return with_qparams(site, {site.input, module.tensor("weight"), module.tensor("bias"), eps});
  }
  return batch_norm_inputs(site, module);
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

Inputs function_kernel_inputs(std::string_view kernel, const KernelSite& site) {
  if (const auto* row = number_argument(kernel))
    return with_number(kernel, site, operators::argument_named(site.op, row->name));
  const auto input_stats = operators::argument_constant(site.model, site.op, "use_input_stats");
  if (input_stats && !input_stats->toBool()) return std::nullopt;
  const auto* row =
      first_row(kFunctionArguments, [&](const FunctionArguments& each) { return each.kernel == kernel; });
  if (row == nullptr) return std::nullopt;
  std::vector<Value*> inputs{site.input};
  for (const char* name : row->names) {
    if (name != nullptr) inputs.push_back(operators::argument_named(site.op, name));
  }
  if (std::ranges::find(inputs, nullptr) != inputs.end()) return std::nullopt;
  return with_qparams(site, std::move(inputs));
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

Inputs kernel_inputs(std::string_view kernel, const KernelSite& site) {
  if (kernel == "quantized::hardswish") return with_qparams(site, {site.input});
  if (!ir::is_module_call(site.op)) return function_kernel_inputs(kernel, site);
  const ModuleCall& call = ir::call_of(site.model, site.op);
  return module_kernel_inputs(kernel, site, ir::root_of(call));
}

}  // namespace tsq::kernels
