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
#include "torchscript/modules/pack_when_loaded.h"

namespace tsq::passes {

bool tie_transposes(Model& model, const PassContext&) {
  std::map<const void*, const ir::Weighted*> first;
  return change_nodes(model, [&](const Node* node) {
    ir::Weighted* weighted = weighted_at(model, node);
    if (weighted == nullptr || !torchscript::can_pack_matrix(*weighted)) return false;
    const auto [known, is_new] = first.try_emplace(ir::origin_of(*weighted).const_data_ptr(), weighted);
    if (is_new || !ir::are_transposes(*known->second, *weighted)) return false;
    weighted->weight = kernels::quantized_weight(*known->second).dequantize().t().contiguous();
    return true;
  });
}

}  // namespace tsq::passes
