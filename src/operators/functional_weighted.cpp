#include "operators/functional_weighted.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>

#include "base/tensor_memory.h"
#include "ir/analysis.h"
#include "ir/constants.h"
#include "ir/edit.h"
#include "ir/quantize_operators.h"
#include "operators/arguments.h"

namespace tsq::operators {
namespace {

/// The function and the module of a layer.
struct LayerNames {
  std::string_view function;
  std::string_view module;
};
constexpr std::array kLayers{
    LayerNames{"torch.nn.functional.linear", "torch.nn.Linear"},
    LayerNames{"torch.nn.functional.conv1d", "torch.nn.Conv1d"},
    LayerNames{"torch.nn.functional.conv2d", "torch.nn.Conv2d"},
    LayerNames{"torch.nn.functional.conv3d", "torch.nn.Conv3d"},
    LayerNames{"torch.nn.functional.conv_transpose1d", "torch.nn.ConvTranspose1d"},
    LayerNames{"torch.nn.functional.conv_transpose2d", "torch.nn.ConvTranspose2d"},
    LayerNames{"torch.nn.functional.conv_transpose3d", "torch.nn.ConvTranspose3d"},
};

using ir::kDequantize;
using ir::kQuantize;
using ir::Model;
using ir::Node;
using ir::Value;

/// Undefined where it is not known now: a buffer may change from call to call. Nor is it of use where it
/// holds no numbers.
at::Tensor attribute_tensor(const Model& model, const Value* value) {
  const std::string* name = ir::attribute_read(model, value);
  const bool may_change = name != nullptr && !model.attributes.at(*name).is_parameter;
  if (may_change && ir::written_attributes(model).contains(*name)) return {};
  const at::Tensor held = ir::held_tensor(model, value);
  return holds_numbers(held) ? held.detach() : at::Tensor();
}

std::optional<ir::Weighted> with_bias_and_geometry(const Model& model, const Node* op, ir::Weighted result) {
  if (op->inputs().size() > 2 && !op->input(2)->mustBeNone()) {
    result.bias = attribute_tensor(model, op->input(2));
    if (!result.bias.defined()) return std::nullopt;
  }
  if (op->inputs().size() <= 3) return result;
  const auto argument = [&](const char* name) { return argument_constant(model, op, name); };
  const auto stride = argument("stride");
  const auto padding = argument("padding");
  const auto dilation = argument("dilation");
  const auto groups = argument("groups");
  if (!stride || !padding || !padding->isIntList() || !dilation || !groups) return std::nullopt;
  result.stride = stride->toIntVector();
  result.padding = padding->toIntVector();
  result.dilation = dilation->toIntVector();
  result.groups = groups->toInt();
  result.output_padding.assign(result.stride.size(), 0);
  if (argument_named(op, "output_padding") == nullptr) return result;
  const auto output_padding = argument("output_padding");
  if (!output_padding || !output_padding->isIntList()) return std::nullopt;
  result.output_padding = output_padding->toIntVector();
  return result;
}

}  // namespace

std::string_view module_of_functional(std::string_view function) {
  const auto found = std::ranges::find(kLayers, function, &LayerNames::function);
  return found == kLayers.end() ? std::string_view() : found->module;
}

std::string_view functional_of_module(std::string_view module) {
  const auto found = std::ranges::find(kLayers, module, &LayerNames::module);
  return found == kLayers.end() ? std::string_view() : found->function;
}

bool is_functional_layer(const Model& model, const Node* node) {
  return std::ranges::any_of(ir::targets(model, node),
                             [](const Symbol& target) { return !module_of_functional(target.name).empty(); });
}

std::optional<c10::ScalarType> functional_weight_dtype(const Node* op) {
  const Node* dequantize = op->input(1)->node();
  if (dequantize->kind() != kDequantize) return std::nullopt;
  const Node* quantize = dequantize->input(0)->node();
  const bool is_cast = quantize->kind() == c10::aten::to && quantize->inputs().size() == 5;
  if (!is_cast && quantize->kind() != kQuantize && quantize->kind() != ir::kQuantizePerChannel)
    return std::nullopt;
  return ir::dtype_constant(is_cast ? quantize->input(1) : quantize->inputs().back());
}

std::optional<ir::Weighted> functional_parameters(const Model& model, const Node* op) {
  const auto dtype = functional_weight_dtype(op);
  if (!dtype) return std::nullopt;
  const Node* quantize = op->input(1)->node()->input(0)->node();
  const at::Tensor weight = attribute_tensor(model, quantize->input(0));
  if (!weight.defined()) return std::nullopt;
  QParams qparams{.dtype = *dtype};
  if (quantize->kind() == kQuantize) {
    qparams.scale = at::scalar_tensor(ir::constant_value(quantize->input(1))->toDouble(), at::kFloat);
    qparams.zero_point = at::scalar_tensor(ir::constant_value(quantize->input(2))->toInt(), at::kLong);
  } else if (quantize->kind() == ir::kQuantizePerChannel) {
    qparams.qscheme = c10::QScheme::PER_CHANNEL_AFFINE;
    qparams.scale = attribute_tensor(model, quantize->input(1));
    qparams.zero_point = attribute_tensor(model, quantize->input(2));
    qparams.axis = ir::constant_value(quantize->input(3))->toInt();
  }
  return with_bias_and_geometry(model, op, {.weight = weight, .weight_qparams = qparams});
}

std::optional<ir::Weighted> float_functional_parameters(const Model& model, const Node* op) {
  const Value* held = op->input(1);
  const at::Tensor weight =
      attribute_tensor(model, ir::is_observer(held->node()) ? held->node()->input(0) : held);
  return weight.defined() ? with_bias_and_geometry(model, op, {.weight = weight}) : std::nullopt;
}

}  // namespace tsq::operators
