#include "passes/capture/dtypes/replaced_dtypes.h"

#include <ATen/core/Tensor.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/jit/ir/constants.h>
#include <tsq/dtype_config.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include "ir/analysis.h"
#include "passes/capture/dtypes/told_dtypes.h"
#include "passes/context/names.h"

namespace tsq::passes {
namespace {

/// What this pass replaces; the complex dtypes are those of a Fourier transform of the others.
constexpr std::array kReplaceable{ScalarType::Half, ScalarType::BFloat16, ScalarType::Double};

bool is_replaceable(ScalarType dtype) {
  return std::find(kReplaceable.begin(), kReplaceable.end(), dtype) != kReplaceable.end();
}

/// Operators whose parameters tell in which dtype they compute.
constexpr std::array<std::string_view, 28> kLayers{"aten::linear",
                                                   "aten::conv1d",
                                                   "aten::conv2d",
                                                   "aten::conv3d",
                                                   "aten::conv_transpose1d",
                                                   "aten::conv_transpose2d",
                                                   "aten::conv_transpose3d",
                                                   "aten::_convolution",
                                                   "aten::_convolution_mode",
                                                   "aten::convolution",
                                                   "aten::matmul",
                                                   "aten::mm",
                                                   "aten::bmm",
                                                   "aten::addmm",
                                                   "aten::einsum",
                                                   "aten::embedding",
                                                   "aten::embedding_bag",
                                                   "aten::batch_norm",
                                                   "aten::layer_norm",
                                                   "aten::group_norm",
                                                   "aten::prelu",
                                                   "aten::lstm",
                                                   "aten::gru",
                                                   "aten::rnn_tanh",
                                                   "aten::rnn_relu",
                                                   "aten::lstm_cell",
                                                   "aten::gru_cell",
                                                   "aten::scaled_dot_product_attention"};

bool is_layer(const Node* node) {
  return node->kind() == c10::prim::CallFunction ||
         std::ranges::find(kLayers, node->kind().toQualString()) != kLayers.end();
}

void add_parameters(const Module& module, Dtypes& found) {
  for (const Module& each : module.modules()) {
    for (const auto& attribute : each.named_attributes(/*recurse=*/false)) {
      if (!attribute.value.isTensor() || !attribute.value.toTensor().defined()) continue;
      const at::Tensor& tensor = attribute.value.toTensor();
      if (tensor.dim() > 0 && is_replaceable(tensor.scalar_type())) found.insert(tensor.scalar_type());
    }
  }
}

/// Whether a node casts to the dtype of another value, which no parameter of the model tells.
bool takes_dtype_of_value(const Model& model, const Node* cast) {
  if (cast->kind() != c10::aten::to || constant_dtype(cast)) return false;
  auto position = dtype_position(cast);
  if (!position) position = argument_position(cast, "other");
  if (!position || cast->input(*position)->mustBeNone()) return false;
  const Value* giver = cast->input(*position);
  if (giver->node()->kind() == c10::prim::dtype) giver = giver->node()->input(0);
  return !lasting_tensor(model, giver).defined();
}

/// The dtype of a parameter, also where it is cast each time that the model runs, as autocast does.
void add_parameter(const Model& model, const Value* value, LayerDtypes& found) {
  std::optional<ScalarType> dtype;
  bool is_of_other = false;  // the cast that comes last decides
  while (!lasting_tensor(model, value).defined() && !value->node()->inputs().empty() &&
         (value->node()->kind() == c10::aten::to || value->node()->kind() == c10::aten::t)) {
    is_of_other |= !dtype && takes_dtype_of_value(model, value->node());
    if (!dtype) dtype = constant_dtype(value->node());
    value = value->node()->input(0);
  }
  const at::Tensor tensor = lasting_tensor(model, value);
  if (!tensor.defined() || tensor.dim() == 0 || !tensor.is_floating_point()) return;
  if (!dtype) dtype = tensor.scalar_type();
  if (!is_replaceable(*dtype)) return;
  found.all.insert(*dtype);
  if (!is_of_other) found.told.insert(*dtype);
}

}  // namespace

LayerDtypes dtypes_of_layers(const Model& model) {
  LayerDtypes found;
  Dtypes of_modules;
  for (const auto& graph : graphs_of(model)) {
    for (const Node* node : ir::nodes_in_order(*graph)) {
      if (ir::is_module_call(node)) {
        if (const auto& module = ir::call_of(model, node).module) add_parameters(*module, of_modules);
      } else if (is_layer(node)) {
        for (const Value* operand : ir::operands(node)) add_parameter(model, operand, found);
      }
    }
  }
  found.all.insert(of_modules.begin(), of_modules.end());
  found.told.insert(of_modules.begin(), of_modules.end());
  return found;
}

ScalarType replacement(const Dtypes& replaced, ScalarType dtype) {
  if (replaced.contains(dtype)) return ScalarType::Float;
  const bool is_wide = dtype == ScalarType::ComplexDouble && replaced.contains(ScalarType::Double);
  const bool is_narrow = dtype == ScalarType::ComplexHalf && replaced.contains(ScalarType::Half);
  return is_wide || is_narrow ? ScalarType::ComplexFloat : dtype;
}

std::string names_of(const Dtypes& dtypes) {
  std::vector<std::string> names;
  for (const ScalarType dtype : dtypes) names.emplace_back(dtype_name(dtype));
  return fmt::format("{}", fmt::join(names, " and "));
}

std::vector<std::shared_ptr<ir::Graph>> graphs_of(const Model& model) {
  std::vector<std::shared_ptr<ir::Graph>> graphs{model.graph};
  for (const ir::Method& method : model.methods) graphs.push_back(method.graph);
  return graphs;
}

at::Tensor lasting_tensor(const Model& model, const Value* value) {
  const Node* node = value->node();
  const bool is_attribute = node->kind() == c10::prim::GetAttr &&
                            node->input(0)->node()->kind() == c10::prim::Param &&
                            model.attributes.hasattr(node->s(c10::attr::name));
  const auto held = is_attribute ? std::optional(model.attributes.attr(node->s(c10::attr::name)))
                                 : torch::jit::toIValue(value);
  return held && held->isTensor() ? held->toTensor() : at::Tensor();
}

}  // namespace tsq::passes
