// Kernels that keep a bias as a whole number, in steps of the product of the input's and the weight's scale,
// in 32 bits: the scale of a channel with tiny weights and an ordinary bias is not too small for that.

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "backends/kernels/kernel_limits.h"
#include "ir/analysis.h"
#include "ir/constants.h"
#include "ir/quantize_operators.h"
#include "operators/functional_weighted.h"
#include "operators/traits.h"
#include "passes/context/nodes.h"
#include "passes/weights/passes.h"

namespace tsq::passes {
namespace {

/// A bias has half of the 32 bits, the sum of products the other half: 32,896 products of bytes fit. The
/// weights of a channel whose bias is that large are known to a step of 2^-30 of it.
constexpr double kLargestBias = 1 << 30;

/// The scale of what an operator reads, where the graph says it.
std::optional<double> scale_read(const ir::Node* op) {
  const ir::Node* node = op->input(0)->node();
  while (node->kind() != ir::kQuantize) {
    const bool keeps =
        node->kind() == ir::kDequantize || operators::keeps_qparams(operators::traits_of(node));
    if (!keeps) return std::nullopt;
    node = ir::operands(node).front()->node();
  }
  return ir::number_constant(node->input(1));
}

bool has_bias_of_channels(const ir::Weighted& weighted) {
  if (!weighted.weight_qparams || weighted.weight_qparams->dtype != c10::ScalarType::QInt8 ||
      !weighted.bias.defined())
    return false;
  const int64_t scales = weighted.weight_qparams->scale.numel();
  return scales > 0 && weighted.bias.numel() % scales == 0;
}

/// The scales with which the bias fits, for inputs of this scale and of larger ones; undefined: they do
/// already.
at::Tensor larger_scales(const ir::Weighted& weighted, double input_scale) {
  const at::Tensor& scale = weighted.weight_qparams->scale;
  const at::Tensor bias =
      std::get<0>(weighted.bias.detach().to(at::kDouble).abs().reshape({-1, scale.numel()}).max(0));
  const at::Tensor least = (bias / (input_scale * kLargestBias)).reshape(scale.sizes());
  const at::Tensor bound = at::maximum(scale.to(at::kDouble), least).to(scale.scalar_type());
  return at::isfinite(bound).all().item<bool>() && !at::equal(bound, scale) ? bound : at::Tensor();
}

void note(ir::Model& model, const ir::Node* node, const at::Tensor& before, const at::Tensor& after) {
  if (Decision* decision = ir::decision_of(model, node)) {
    decision->notes.push_back(
        fmt::format("the weights of {} of {} channels have larger scales, so that the bias, of which the "
                    "kernel makes a whole number, fits into 32 bits",
                    after.ne(before).sum().item<int64_t>(), after.numel()));
  }
}

/// The weight of F.linear or F.conv*, whose scales are an attribute of the model.
bool bound_bias_of_function(ir::Model& model, const ir::Node* node) {
  if (ir::is_module_call(node) || node->inputs().size() < 2) return false;
  const auto weighted = operators::functional_parameters(model, node);
  const auto input_scale = weighted && has_bias_of_channels(*weighted) ? scale_read(node) : std::nullopt;
  if (!input_scale) return false;
  const ir::Node* scale = node->input(1)->node()->input(0)->node()->input(1)->node();
  const at::Tensor bound = larger_scales(*weighted, *input_scale);
  if (scale->kind() != c10::prim::GetAttr || !bound.defined()) return false;
  note(model, node, weighted->weight_qparams->scale, bound);
  model.attributes.setattr(scale->s(c10::attr::name), bound);
  return true;
}

/// Calls of one weight go on sharing it: the smallest scale of what any of them reads decides.
std::map<const void*, double> least_scales(const ir::Model& model) {
  std::map<const void*, double> least;
  for (const ir::Node* node : ir::nodes_in_order(*model.graph)) {
    const ir::Weighted* weighted = weighted_at(model, node);
    const auto scale =
        weighted != nullptr && has_bias_of_channels(*weighted) ? scale_read(node) : std::nullopt;
    if (!scale) continue;
    const auto [found, is_new] = least.emplace(ir::origin_of(*weighted).const_data_ptr(), *scale);
    if (!is_new) found->second = std::min(found->second, *scale);
  }
  return least;
}

}  // namespace

bool bound_biases(ir::Model& model, const PassContext& context) {
  if (!kernels::rounds_biases(context.target)) return false;
  const std::map<const void*, double> least = least_scales(model);
  return change_nodes(model, [&](const ir::Node* node) {
    ir::Weighted* weighted = weighted_at(model, node);
    if (weighted == nullptr) return bound_bias_of_function(model, node);
    const auto scale = least.find(ir::origin_of(*weighted).const_data_ptr());
    if (!has_bias_of_channels(*weighted) || scale == least.end()) return false;
    const at::Tensor bound = larger_scales(*weighted, scale->second);
    if (!bound.defined()) return false;
    note(model, node, weighted->weight_qparams->scale, bound);
    weighted->weight_qparams->scale = bound;
    return true;
  });
}

}  // namespace tsq::passes
