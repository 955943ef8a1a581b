// What linear layers and convolutions have in common as reference modules.

#include "operators/weighted.h"

#include <ATen/ATen.h>

#include <optional>
#include <utility>

#include "torchscript/modules/reference/reference_kind.h"
#include "torchscript/modules/weight_only_linear.h"

namespace tsq::torchscript {
namespace {

/// A scale and zero point for each group of columns; the last group is filled up with zeros.
bool quantize_in_groups(ir::Weighted& weighted, const ObserverSpec& spec) {
  if (weighted.weight.dim() != 2) return false;
  weighted.group_size = resolve(spec).group_size;
  QParams qparams = observe_once(spec, weight_in_groups(weighted.weight.detach(), weighted.group_size));
  for (at::Tensor* each : {&qparams.scale, &qparams.zero_point})
    *each = each->reshape({weighted.weight.size(0), -1});
  weighted.weight_qparams = qparams;
  return true;
}

}  // namespace

QParams weight_qparams(const ObserverSpec& spec, const at::Tensor& weight) {
  if (resolve(spec).dtype == c10::ScalarType::Half) return {.dtype = c10::ScalarType::Half};
  return observe_once(spec, weight);
}

bool build_weighted(ir::Node* /*node*/, ir::ModuleCall& root, const ObserverSpec& weight) {
  if (!root.weighted || root.weighted->weight_qparams) return false;
  if (resolve(weight).group_size > 0) return quantize_in_groups(*root.weighted, weight);
  root.weighted->weight_qparams =
      weight_qparams(operators::weight_observer(root.type, weight), root.weighted->weight);
  return true;
}

bool read_weighted(Symbol type, ir::ModuleCall& root) {
  std::optional<ir::Weighted> read =
      root.module ? operators::weighted_parameters(type, *root.module) : std::nullopt;
  if (!read) return false;
  root.weighted = std::move(read);
  root.type = type;
  root.module.reset();
  return true;
}

}  // namespace tsq::torchscript
