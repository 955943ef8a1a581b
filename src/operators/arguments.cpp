#include "operators/arguments.h"

#include <ATen/ATen.h>
#include <torch/csrc/jit/api/function_impl.h>

#include "ir/constants.h"
#include "operators/weighted.h"

namespace tsq::operators {

using ir::ModuleCall;
using ir::Node;
using ir::Value;

Value* argument_named(const Node* op, const std::string& name) {
  const c10::FunctionSchema* schema = nullptr;
  std::size_t first = 0;
  if (op->kind() == c10::prim::CallFunction) {
    const auto type = op->input(0)->type()->cast<c10::FunctionType>();
    if (!type) return nullptr;
    schema = &type->function()->getSchema();
    first = 1;
  } else {
    schema = op->maybeSchema();
  }
  if (schema == nullptr) return nullptr;
  const auto index = schema->argumentIndexWithName(name);
  if (!index || static_cast<std::size_t>(*index) + first >= op->inputs().size()) return nullptr;
  return const_cast<Value*>(op->input(static_cast<std::size_t>(*index) + first));
}

std::optional<c10::IValue> argument_constant(const ir::Model& model, const Node* op,
                                             const std::string& name) {
  if (ir::is_module_call(op)) {
    const ModuleCall& call = ir::call_of(model, op);
    if (!call.module) return std::nullopt;
    for (const auto aten : {c10::aten::avg_pool2d, c10::aten::avg_pool1d}) {
      if (auto value = module_constant(*call.module, name, aten, name)) return value;
    }
    return std::nullopt;
  }
  const Value* value = argument_named(op, name);
  return value == nullptr ? std::nullopt : ir::constant_value(value);
}

double negative_slope(const ModuleCall& leaky_relu) {
  if (!leaky_relu.constants.empty()) return leaky_relu.constants.front().toDouble();
  const auto slope = leaky_relu.module ? module_constant(*leaky_relu.module, "negative_slope",
                                                         c10::aten::leaky_relu, "negative_slope")
                                       : std::nullopt;
  return slope ? slope->toDouble() : 0.01;
}

at::Tensor slopes_of(const ir::Model& model, const Node* activation) {
  if (ir::is_module_call(activation)) {
    const ModuleCall& call = ir::call_of(model, activation);
    if (call.type.name == "torch.nn.LeakyReLU") return at::scalar_tensor(negative_slope(call));
    const bool has_weight =
        call.module && call.module->hasattr("weight") && call.module->attr("weight").isTensor();
    return has_weight ? call.module->attr("weight").toTensor().detach() : at::Tensor();
  }
  const auto slope = argument_constant(model, activation, "negative_slope");
  return slope && slope->isDouble() ? at::scalar_tensor(slope->toDouble()) : at::Tensor();
}

int64_t slope_count(const ir::Model& model, const Node* activation) {
  const at::Tensor slopes = slopes_of(model, activation);
  return slopes.defined() ? slopes.numel() : 1;
}

}  // namespace tsq::operators
