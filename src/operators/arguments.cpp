#include "operators/arguments.h"

#include <ATen/ATen.h>
#include <torch/csrc/jit/api/function_impl.h>

#include <limits>

#include "ir/constants.h"
#include "operators/weighted.h"

namespace tsq::operators {

using ir::ModuleCall;
using ir::Node;
using ir::Value;

std::optional<std::size_t> argument_index(const Node* op, const std::string& name) {
  const auto function =
      op->kind() == c10::prim::CallFunction ? op->input(0)->type()->cast<c10::FunctionType>() : nullptr;
  const c10::FunctionSchema* schema = function ? &function->function()->getSchema() : op->maybeSchema();
  const auto argument = schema == nullptr ? std::nullopt : schema->argumentIndexWithName(name);
  if (!argument) return std::nullopt;
  const std::size_t index = static_cast<std::size_t>(*argument) + (function ? 1 : 0);
  return index < op->inputs().size() ? std::optional(index) : std::nullopt;
}

Value* argument_named(const Node* op, const std::string& name) {
  const auto index = argument_index(op, name);
  return index ? const_cast<Value*>(op->input(*index)) : nullptr;
}

std::optional<c10::IValue> argument_constant(const ir::Model& model, const Node* op,
                                             const std::string& name) {
  const auto value = argument_constant(model, op, name, c10::aten::avg_pool2d, name);
  return value ? value : argument_constant(model, op, name, c10::aten::avg_pool1d, name);
}

std::optional<c10::IValue> argument_constant(const ir::Model& model, const Node* op, const std::string& name,
                                             c10::Symbol aten, const std::string& of_module) {
  if (ir::is_module_call(op)) {
    const auto& module = ir::call_of(model, op).module;
    return module ? module_constant(*module, of_module, aten, name) : std::nullopt;
  }
  const Value* value = argument_named(op, name);
  return value == nullptr ? std::nullopt : ir::constant_value(value);
}

double negative_slope(const ModuleCall& leaky_relu) {
  const auto number = [](const c10::IValue& value) { return value.toScalar().toDouble(); };
  if (!leaky_relu.constants.empty()) return number(leaky_relu.constants.front());
  const auto slope = leaky_relu.module ? module_constant(*leaky_relu.module, "negative_slope",
                                                         c10::aten::leaky_relu, "negative_slope")
                                       : std::nullopt;
  return slope ? number(*slope) : 0.01;
}

at::Tensor slopes_of(const ir::Model& model, const Node* activation) {
  if (ir::is_module_call(activation)) {
    const ModuleCall& call = ir::call_of(model, activation);
    if (call.type.name == "torch.nn.LeakyReLU") return at::scalar_tensor(negative_slope(call));
    const c10::IValue weight = call.module ? call.module->attr("weight", c10::IValue()) : c10::IValue();
    return weight.isTensor() ? weight.toTensor().detach() : at::Tensor();
  }
  const auto slope = argument_constant(model, activation, "negative_slope");
  return slope && slope->isDouble() ? at::scalar_tensor(slope->toDouble()) : at::Tensor();
}

bool takes_all(const ir::Node* node) {
  if (node->kind() != c10::aten::slice || !node->input(0)->type()->isSubtypeOf(*c10::TensorType::get()))
    return false;
  const auto is_none_or = [](const ir::Value* value, std::int64_t number) {
    const auto constant = ir::constant_value(value);
    return constant && (constant->isNone() || (constant->isInt() && constant->toInt() == number));
  };
  return is_none_or(node->input(2), 0) &&
         is_none_or(node->input(3), std::numeric_limits<std::int64_t>::max()) &&
         ir::whole_number_constant(node->input(4)) == 1;
}

}  // namespace tsq::operators
