#include "passes/lower/registered_weights.h"

#include <ATen/ATen.h>

#include "backends/kernels/packed.h"
#include "ir/analysis.h"
#include "operators/functional_weighted.h"
#include "passes/place/rounding.h"

namespace tsq::passes {
namespace {

using ir::Model;
using ir::Node;
using torch::jit::Module;

/// The weight in a reference module of the user's: `weight` with its `weight_scale` and so on.
std::optional<WeightToPack> weight_in(const Module& module) {
  for (const char* name : {"weight", "weight_scale", "weight_zero_point", "weight_axis", "weight_dtype"}) {
    if (!module.hasattr(name)) return std::nullopt;
  }
  const at::Tensor scale = module.attr("weight_scale").toTensor();
  const auto axis = module.attr("weight_axis").toInt();
  const bool per_channel = axis >= 0 && scale.dim() > 0;
  ir::Weighted layer;
  layer.weight = module.attr("weight").toTensor().detach();
  layer.weight_qparams = QParams{.scale = scale,
                                 .zero_point = module.attr("weight_zero_point").toTensor(),
                                 .dtype = static_cast<c10::ScalarType>(module.attr("weight_dtype").toInt()),
                                 .qscheme = per_channel ? c10::kPerChannelAffine : c10::kPerTensorAffine,
                                 .axis = axis};
  WeightToPack result{.quantized = kernels::quantized_weight(layer), .bias = {}, .layer = {}};
  if (module.hasattr("bias") && module.attr("bias").isTensor()) result.bias = module.attr("bias").toTensor();
  return result;
}

std::optional<WeightToPack> weight_of(const ir::Weighted& weighted) {
  if (!weighted.weight_qparams) return std::nullopt;
  return WeightToPack{
      .quantized = kernels::quantized_weight(weighted), .bias = weighted.bias, .layer = weighted};
}

std::optional<WeightToPack> weight_of(const ir::EmbeddingTable& table) {
  if (!table.weight_qparams) return std::nullopt;
  return weight_of(ir::Weighted{.weight = table.weight.detach(), .weight_qparams = table.weight_qparams});
}

std::optional<WeightToPack> weight_of(const ir::ModuleCall& call) {
  if (const ir::Weighted* weighted = ir::weighted_of(call)) return weight_of(*weighted);
  if (call.embedding) return weight_of(*call.embedding);
  const ir::ModuleCall& root = ir::root_of(call);
  return root.module ? weight_in(*root.module) : std::nullopt;
}

}  // namespace

std::optional<WeightToPack> weight_to_pack(const Model& model, const Node* op) {
  if (ir::is_module_call(op)) return weight_of(ir::call_of(model, op));
  if (!is_functional_layer(model, op)) return std::nullopt;
  const auto weighted = operators::functional_parameters(model, op);
  return weighted ? weight_of(*weighted) : std::nullopt;
}

}  // namespace tsq::passes
