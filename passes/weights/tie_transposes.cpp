// A matrix that one linear layer multiplies with as it is and another transposed is in a file once: the
// second one's codes are made of the rounded values of the first, which it can read out of those when it is
// loaded (hold_weights_once).
//   linear(x, w), linear(y, wᵀ)   →   linear(x, w), linear(y, rounded(w)ᵀ)

#include <ATen/ATen.h>

#include <map>

#include "backends/kernels/packed.h"
#include "ir/transposes.h"
#include "passes/context/nodes.h"
#include "passes/weights/passes.h"
#include "torchscript/modules/tied_table.h"

namespace tsq::passes {
namespace {

/// In int8 around zero, with one scale or one for each row.
bool is_rounded_matrix(const ir::Weighted& weighted) {
  if (!weighted.stride.empty() || weighted.weight.dim() != 2 || !weighted.weight_qparams ||
      weighted.group_size > 0)
    return false;
  const QParams& qparams = *weighted.weight_qparams;
  return qparams.dtype == c10::ScalarType::QInt8 && !qparams.zero_point.any().item<bool>() &&
         (qparams.scale.numel() == 1 || torchscript::are_symmetric_rows(qparams));
}

}  // namespace

bool tie_transposes(Model& model, const PassContext&) {
  std::map<const void*, const ir::Weighted*> first;
  return change_nodes(model, [&](const Node* node) {
    ir::Weighted* weighted = weighted_at(model, node);
    if (weighted == nullptr || !is_rounded_matrix(*weighted)) return false;
    const auto [known, is_new] = first.try_emplace(ir::origin_of(*weighted).const_data_ptr(), weighted);
    if (is_new || !ir::are_transposes(*known->second, *weighted)) return false;
    weighted->weight = kernels::quantized_weight(*known->second).dequantize().t().contiguous();
    return true;
  });
}

}  // namespace tsq::passes
